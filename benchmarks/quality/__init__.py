"""Does a search find the right tools? Measured on any catalogue with labelled queries.

    python -m benchmarks.quality --data DIR [--datasets a,b] [--engines e1,e2] [--sample N]
                                 [--compare a b] [--fail-under METRIC=VALUE] [--json FILE]
    python -m benchmarks.quality --install-peers

DIR holds one folder per dataset, each with ``tools.jsonl`` and ``queries.jsonl``
(see `benchmarks.quality.datasets`). Every engine indexes a dataset's tools and is
asked its queries, ten results each; `toolscript.retrieval.quality_metrics` says what is
counted. Other projects' engines run from their published packages in helper
processes, in an environment that ``--install-peers`` makes in ``.peers``.
"""
