"""The reranker: adds the context of a session to the scores of a search.

    score = α · own + (1 − α) · graph      α falls with the graph's edges and `ToolGraph.trust`

``graph`` is `Forecast.scores`. Without a context, or if the graph has nothing to
say or has not proved itself, every score is bit for bit the search's own. A tool whose
name the question spells exactly keeps its 1, and what a template connects with the
context at least its own score: its author has said that it belongs there.
"""

from collections.abc import Sequence

import numpy as np

from toolscript.graph.base import adaptive_alpha
from toolscript.retrieval.fusion import round_scores
from toolscript.retrieval.trace import Column, Evidence, Trace

_STRONGER = {"name", "capability"}
"""The steps whose reason stands before that of the context."""


def rerank_by_context(trace: Trace) -> Column | None:
    """Raise the tools that go with those used before."""
    request, forecast, own = trace.request, trace.state.forecast, trace.scores
    if forecast is None or not request.context:
        return None
    graph = forecast.scores(request.context)
    if graph is None:
        return None
    beside = forecast.connected(request.context)
    alpha = adaptive_alpha(trace.edges, forecast.graph.trust(templated=beside.size > 0))
    scores = np.where(own >= 1.0, 1.0, round_scores(alpha * own + (1.0 - alpha) * graph))
    scores[beside] = np.maximum(scores[beside], own[beside])
    before = tuple(trace.columns)

    def evidence(row: int) -> Evidence:
        text = f"the graph says {graph[row]:.2f}, and weighs {1 - alpha:.2f}"
        decides = (1.0 - alpha) * float(graph[row]) > alpha * float(own[row])
        goes_with = decides and not _has_stronger(before, row)
        phrase = f"Goes with {request.context[-1]}" if goes_with else ""
        return Evidence("context", text, phrase, {"graph": float(graph[row])})

    return Column(scores[None], evidence, alpha)


def _has_stronger(columns: Sequence[Column], row: int) -> bool:
    """Returns whether a step has a reason that stands before that of the context."""
    evidence = (column.evidence(row) for column in columns)
    return any(each.step in _STRONGER for each in evidence if each)
