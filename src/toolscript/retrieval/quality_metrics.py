"""The figures of one query, and their means over many.

With the query's relevant tools as a set, of which an engine returned some among
its ten results, best first:

- *R@k*, recall: how many of the relevant tools are among the first k, as a share
  of all that are relevant. So R@1 is the share found by the first result alone: 1
  if the one right tool comes first, but at most 1/3 if three are right.
- *nDCG@10*: Σ 1/log2(rank + 1) over the relevant tools found, divided by the
  sum of the best order: the first min(10, number of relevant) ranks all right.
- *MRR*: 1 / rank of the first relevant tool, 0 if none is among the ten.
- *all@10*: 1 if every relevant tool is among the ten, else 0.

A dataset's figure is the mean over its queries; the macro average is the mean
over datasets, whatever their sizes. A tool returned twice counts once, where it
came first.
"""

import math
from collections.abc import Collection, Sequence

DEPTH = 10
"""How many results every engine is asked for."""
LABELS = {
    "r1": "R@1",
    "r5": "R@5",
    "r10": "R@10",
    "ndcg10": "nDCG@10",
    "mrr": "MRR",
    "all10": "all@10",
}
Scores = dict[str, float]
"""One figure for each of `LABELS`."""


def score(returned: Sequence[str], relevant: Collection[str]) -> Scores:
    """One query's figures."""
    wanted = set(relevant)
    ranked = list(dict.fromkeys(returned))[:DEPTH]
    ranks = [rank for rank, identifier in enumerate(ranked, 1) if identifier in wanted]
    best = range(1, min(DEPTH, len(wanted)) + 1)
    return {
        "r1": _within(ranks, 1) / len(wanted),
        "r5": _within(ranks, 5) / len(wanted),
        "r10": _within(ranks, DEPTH) / len(wanted),
        "ndcg10": _gain(ranks) / _gain(best),
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "all10": float(len(ranks) == len(wanted)),
    }


def mean(scores: Sequence[Scores]) -> Scores:
    """Returns the mean of each figure that the first of these scores has."""
    return {name: math.fsum(each[name] for each in scores) / len(scores) for name in scores[0]}


def _within(ranks: Sequence[int], k: int) -> int:
    return sum(rank <= k for rank in ranks)


def _gain(ranks: Sequence[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)
