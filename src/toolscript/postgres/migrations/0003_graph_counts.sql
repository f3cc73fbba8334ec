create table graph_totals (
    id boolean primary key default true check (id),  -- one row, which writers lock first
    gain double precision not null,
    foreseen double precision not null
);

create table graph_tool (
    tool text primary key,
    weight double precision not null,
    times bigint not null,
    failed double precision not null,
    failures bigint not null
);

create table graph_edge (
    source text not null,
    target text not null,
    next double precision not null,
    later double precision not null,
    next_times bigint not null,
    later_times bigint not null,
    stated double precision not null,
    kinds integer not null,
    primary key (source, target)
);

create table graph_usage (
    tool text not null,
    model text not null,
    count double precision not null,
    total bytea not null,  -- the sum of the questions' vectors: float32, little-endian
    primary key (tool, model)
);

lock table graph_event, graph_fold in access exclusive mode;
