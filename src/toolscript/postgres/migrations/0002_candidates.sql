-- What searches of a large catalogue read. All of it is derived: `rebuild` makes it.

create table candidate_index (
    id integer generated always as identity primary key,
    catalogue text not null,
    is_current boolean not null default false,
    model text not null,  -- whose vectors they are
    common bytea not null,  -- float32, little-endian: see ServerContext; kept until it is rebuilt
    scale real not null default 1,  -- the same
    axes bytea not null,  -- float32, little-endian: see NearestNeighbors; kept until it is rebuilt
    position bigint not null default 0,  -- of the latest change
    next_number integer not null default 0,  -- of the next tool
    folded_position bigint not null default 0,  -- changes up to it are in the tables below
    folded_number integer not null default 0,  -- tools with smaller numbers are in the postings
    folded_size integer not null default 0,  -- the number of tools as of that position
    folded_lengths bigint[] not null default '{0,0,0,0,0,0}'  -- and of words in each field
);
create unique index candidate_index_current on candidate_index (catalogue) where is_current;

create table candidate_server (
    index_id integer not null,
    number integer not null,
    name text not null,
    mean bytea not null,  -- float16, little-endian: see ServerContext; empty without vectors
    digest text not null default '',  -- of its tools, once each of them has a vector
    primary key (index_id, number)
);

create table candidate_tool (
    index_id integer not null,
    number integer not null,  -- another one whenever the tool changes
    server integer not null,
    id text not null,
    name text not null,
    document bytea not null,  -- msgpack
    words bytea not null,  -- int32, little-endian: the words' numbers, field after field
    lengths bytea not null,  -- int32, little-endian: how many words each field has
    purpose text not null,
    executes boolean not null,
    vector bytea,  -- float16, little-endian; null while there is none
    components bytea,  -- int8, of the vector as its server moves it: see NearestNeighbors
    primary key (index_id, number)
);
alter table candidate_tool alter column vector set storage plain;
alter table candidate_tool alter column components set storage plain;
create index candidate_tool_server on candidate_tool (index_id, server);

create table candidate_word (
    index_id integer not null,
    number integer not null,
    word text not null,
    count bigint not null,
    primary key (index_id, number)
);

create table candidate_stem (
    index_id integer not null,
    number integer not null,
    frequency integer not null,
    openings integer not null,
    primary key (index_id, number)
);

create table candidate_posting (
    index_id integer not null,
    stem integer not null,
    block integer not null,
    tools bytea not null,  -- int32, little-endian, ascending
    impacts bytea not null,  -- float16, little-endian; negative where the name has the stem
    primary key (index_id, stem, block)
);
alter table candidate_posting alter column tools set storage external;
alter table candidate_posting alter column impacts set storage external;

create table candidate_change (
    index_id integer not null,
    position bigint not null,
    content bytea not null,  -- msgpack
    primary key (index_id, position)
);
