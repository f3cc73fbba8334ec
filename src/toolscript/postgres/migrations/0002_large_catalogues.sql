-- The indexes of large catalogues. The tables of index 7 are in the schema toolscript_index_7, which
-- `toolscript database rebuild` creates: see catalogue_build.py.

create table catalogue_index (
    id integer generated always as identity primary key,
    catalogue text not null,
    is_current boolean not null default false,
    model text not null,  -- whose vectors they are
    common bytea not null,  -- float32, little-endian: see ServerContext; kept until it is rebuilt
    scale real not null,  -- the same
    position bigint not null default 0,  -- of the latest change
    size integer not null default 0,  -- the number of tools
    lengths bigint[] not null default '{}'  -- of words in each field
);
create unique index catalogue_index_current on catalogue_index (catalogue) where is_current;
