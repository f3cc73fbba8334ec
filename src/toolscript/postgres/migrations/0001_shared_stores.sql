create table record (
    catalogue text not null,
    store text not null,
    name text not null,
    content bytea,  -- null while a name is only locked
    version bigint not null default 1,
    changed_at timestamptz not null default clock_timestamp(),
    primary key (catalogue, store, name)
);

create table feed (
    id bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
    catalogue text not null,
    store text not null,
    name text not null,
    written_at timestamptz not null default clock_timestamp(),
    primary key (xid, id)
);

create table lease (
    catalogue text not null,
    name text not null,
    replica text not null,
    epoch bigint not null,
    expires_at timestamptz not null,
    primary key (catalogue, name)
);

create table replica (
    catalogue text not null,
    id text not null,
    url text not null,
    version text not null,
    servers text[] not null,
    expires_at timestamptz not null,
    primary key (catalogue, id)
);

create table embedding (
    model text not null,
    digest text not null,
    vector bytea not null,  -- float32, little-endian
    used_at timestamptz not null default now(),
    primary key (model, digest)
);

create table graph_event (
    id bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
    catalogue text not null,
    replica text not null,
    content bytea not null,
    written_at timestamptz not null default clock_timestamp(),
    primary key (xid, id)
);

create table graph_fold (
    catalogue text primary key,
    xid xid8 not null,  -- every event before this transaction is in the content
    content bytea not null
);

create table call (
    catalogue text not null,
    id bigint not null,
    who text not null,
    outcome text not null,
    content bytea not null,
    primary key (catalogue, id)
);
