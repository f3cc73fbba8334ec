"""Context: a second stage, after a question's own scores, for what the graph knows.

    score = α · own + (1 − α) · graph      α falls with the number of the graph's edges

``graph`` is `Forecast.scores`. Without a context, or where the graph has nothing to
say, this stage does not run, and every score is bit for bit the search's own. A
tool whose name the question spells exactly keeps its 1, and what a template connects
with the context at least its own score: somebody said that it belongs there.

What the best tools need can be ranked among them: a tool counts `NEEDED` of the one
that needs it for each step in between, if it is declared, and `SUPPOSED` if that
was inferred.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from toolscript.graph.base import adaptive_alpha
from toolscript.graph.forecast import Forecast
from toolscript.graph.tool_graph import DECLARED, ToolGraph
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.fusion import Scores, rounded
from toolscript.retrieval.parents import Rows
from toolscript.types import SearchRequest

NEEDED, SUPPOSED = 0.95, 0.8


@dataclass(frozen=True, slots=True)
class Need:
    """Why a tool is ranked that the question does not ask for: another needs it."""

    by: int
    """The row of the tool that needs it."""
    why: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Scores after the second stage, and what they were before."""

    scores: Scores
    own: Scores
    alpha: float
    """What the search's own score weighs; 1 where the graph is silent."""
    edges: int
    graph: Scores | None = None
    """What the graph says of each tool; None where it is silent."""
    context: tuple[str, ...] = ()
    """The tools that were used so far."""
    needs: Mapping[int, Need] = field(default_factory=dict[int, Need])


def place(
    own: Scores, corpus: Corpus, forecast: Forecast, request: SearchRequest, reachable: Rows
) -> Placed:
    """The scores that a request gets, from the search's own: float64 [n] in [0, 1].

    Only what the best of the ``reachable`` rows need is raised: a tool that the
    caller may not see gives no reason to show another.
    """
    edges = forecast.graph.edges_within(request.grant)
    said = forecast.scores(request.context)
    scores, alpha = own, 1.0
    if said is not None:
        alpha = adaptive_alpha(edges)
        scores = np.where(own >= 1.0, 1.0, rounded(alpha * own + (1.0 - alpha) * said))
        beside = forecast.connected(request.context)
        scores[beside] = np.maximum(scores[beside], own[beside])
    needs: dict[int, Need] = {}
    if request.needed:
        order = reachable[np.argsort(-scores[reachable], kind="stable")]
        best: list[int] = order[: request.limit or 1].tolist()
        scores = _with_needed(scores, corpus, forecast.graph, best, needs)
    return Placed(scores, own, alpha, edges, said, request.context, needs)


def _with_needed(
    scores: Scores, corpus: Corpus, graph: ToolGraph, best: list[int], needs: dict[int, Need]
) -> Scores:
    """Raise what the best tools need; why goes into ``needs``."""
    raised = scores.copy()
    for row in best:
        for each in graph.dependencies(corpus.documents[row].id):
            needed = corpus.rows.get(each.tool)
            why = graph.needs(each.path[-1]).get(each.tool, "")
            step = NEEDED if why == DECLARED else SUPPOSED
            score = float(rounded(scores[row] * step**each.depth))
            if needed is not None and score > raised[needed]:
                raised[needed], needs[needed] = score, Need(row, why)
    return raised
