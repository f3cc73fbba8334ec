"""The reranker: adds the context of a session to the scores of a search.

    score = α · own + (1 − α) · graph      α falls with the graph's edges and `ToolGraph.trust`

``graph`` is `Forecast.scores`. Without a context, or if the graph has nothing to
say or has not proved itself, every score is bit for bit the search's own. A tool whose
name the question spells exactly keeps its 1, and what a template connects with the
context at least its own score: its author has said that it belongs there.

The needs of the best tools can be ranked among them: a tool counts `NEEDED` of the one
that needs it for each step in between, if it is declared, and `SUPPOSED` if that
was inferred.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from toolscript.graph.base import adaptive_alpha
from toolscript.graph.tool_graph import DECLARED, ToolGraph
from toolscript.retrieval.fusion import Scores, round_scores
from toolscript.retrieval.trace import Column, Evidence, Trace

NEEDED, SUPPOSED = 0.95, 0.8
Needs: TypeAlias = dict[int, tuple[str, str]]
"""The id of a tool that needs another, and why, by the row of that other one."""
_STRONGER = {"name", "capability"}
"""The steps whose reason stands before that of the context."""


def rerank_by_context(trace: Trace) -> Column | None:
    """Raise the tools that go with those used before, and those that the best tools need.

    Only the needs of the best of the reachable rows are raised, and only over tools that
    the caller may see: another gives no reason to show one.
    """
    request, forecast, own = trace.request, trace.state.forecast, trace.scores
    if forecast is None or not (request.context or request.needed):
        return None
    graph = forecast.scores(request.context)
    scores, alpha = own, 1.0
    if graph is not None:
        beside = forecast.connected(request.context)
        alpha = adaptive_alpha(trace.edges, forecast.graph.trust(templated=beside.size > 0))
        scores = np.where(own >= 1.0, 1.0, round_scores(alpha * own + (1.0 - alpha) * graph))
        scores[beside] = np.maximum(scores[beside], own[beside])
    needs: Needs = {}
    if request.needed:
        scores, needs = _raise_needed(trace, scores.astype(np.float64), forecast.graph)
    before = tuple(trace.columns)

    def evidence(row: int) -> Evidence | None:
        signals = {} if graph is None else {"graph": float(graph[row])}
        if row in needs:
            by, why = needs[row]
            return Evidence("needed", f"needed by {by}: {why}", f"Needed by {by}", signals)
        if graph is None:
            return None
        text = f"the graph says {graph[row]:.2f}, and weighs {1 - alpha:.2f}"
        decides = (1.0 - alpha) * float(graph[row]) > alpha * float(own[row])
        goes_with = decides and not _has_stronger(before, row) and request.context
        phrase = f"Goes with {goes_with[-1]}" if goes_with else ""
        return Evidence("context", text, phrase, signals)

    return Column(scores[None], evidence, alpha)


def _has_stronger(columns: Sequence[Column], row: int) -> bool:
    """Returns whether a step has a reason that stands before that of the context."""
    evidence = (column.evidence(row) for column in columns)
    return any(each.step in _STRONGER for each in evidence if each)


def _raise_needed(trace: Trace, scores: Scores, graph: ToolGraph) -> tuple[Scores, Needs]:
    """Returns scores in which the needs of the best tools are raised, and the reasons by row."""
    corpus, raised, needs = trace.state.corpus, scores.copy(), dict[int, tuple[str, str]]()
    order = trace.reachable[np.argsort(-scores[trace.reachable], kind="stable")]
    best: list[int] = order[: trace.limit].tolist()
    for row in best:
        by = corpus.documents[row].id
        for dependency in graph.dependencies(by, allows=trace.request.shows):
            needed = corpus.rows.get(dependency.tool)
            why = graph.needs(dependency.path[-1]).get(dependency.tool, "")
            factor = NEEDED if why == DECLARED else SUPPOSED
            score = float(round_scores(scores[row] * factor**dependency.depth))
            if needed is not None and score > raised[needed]:
                raised[needed], needs[needed] = score, (by, why)
    return raised, needs
