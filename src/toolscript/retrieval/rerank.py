"""The last steps of a search: the tools used before say which come next.

A search has one of two. `relate_to_context` is the seed's formula, for its wire:

    score = α · own + (1 − α) · graph      graph is `ToolGraph.graph_relatedness`

α follows the number of edges that the caller may see: see `adaptive_alpha`. All other doors have
`expect_next`, which multiplies a score's odds, score / (1 − score), by exp(`STRENGTH` · s), with s
of `Forecast.strengths`: so it lowers no score, and an answer to another question stays unlikely.

Without a context, or if no tool of it has an edge, neither changes any score. A tool whose name the
question spells exactly keeps its 1.
"""

import numpy as np

from toolscript.graph.base import adaptive_alpha
from toolscript.retrieval.fusion import round_scores
from toolscript.retrieval.trace import Column, Evidence, Trace

STRENGTH = 3.0
"""The logarithm of the factor on the odds of a tool that is certain to come next."""


def relate_to_context(trace: Trace) -> Column | None:
    """Mix in how related each tool is to those used before, for a request ``by_relatedness``."""
    request, forecast, own = trace.request, trace.state.forecast, trace.scores
    if forecast is None or not request.by_relatedness:
        return None
    related, alpha = forecast.graph.related_to(request.context), adaptive_alpha(trace.edges)
    if related is None:
        return None
    graph = np.zeros(own.size)
    for tool in related.keys() & forecast.rows.keys():
        graph[forecast.rows[tool]] = related[tool]
    scores = np.where(own >= 1.0, 1.0, round_scores(alpha * own + (1.0 - alpha) * graph))

    def evidence(row: int) -> Evidence:
        text = f"its relatedness is {graph[row]:.2f}, and weighs {1 - alpha:.2f}"
        return Evidence("context", text, "", {"graph": float(graph[row])})

    return Column(scores[None], evidence, alpha)


def expect_next(trace: Trace) -> Column | None:
    """Raise the tools that the graph expects after those used before."""
    request, forecast, own = trace.request, trace.state.forecast, trace.scores
    if forecast is None or request.by_relatedness:
        return None
    strengths = forecast.strengths(request.context)
    if strengths is None:
        return None
    raised = own * np.exp(STRENGTH * strengths)
    raised = round_scores(raised / (1.0 - own + raised))
    scores = np.where((strengths > 0.0) & (own < 1.0), raised, own)

    def evidence(row: int) -> Evidence | None:
        if not strengths[row]:
            return None
        decides = scores[row] > 2.0 * own[row]
        phrase = f"Goes with {request.context[-1]}" if decides else ""
        text = f"expected next with a strength of {strengths[row]:.2f}"
        return Evidence("forecast", text, phrase, {"forecast": float(strengths[row])})

    return Column(scores[None], evidence)
