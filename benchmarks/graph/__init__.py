"""What does the graph of tools foresee, and what does searching gain by it?

    python -m benchmarks.graph --data DIR [--datasets a,b] [--tasks t,u] [--sample N] [--json FILE]

DIR holds one folder per dataset, each with ``tools.jsonl``, and where there are
any ``queries.jsonl``, ``graph.json`` and ``next_tool.jsonl`` (see
`benchmarks.graph.data`). Every task is measured on the datasets that have what it
needs:

- *next-tool*: which tool comes next, given those used so far. History is
  ``graph.json``. ``next-tool-novel`` are the items whose chain is not in the
  history (``seen_chain`` is false).
"""
