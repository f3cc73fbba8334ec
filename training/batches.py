"""Batches: each holds several questions of the same servers, so that their tools are confusable."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from training.data import Question


def batches(
    questions: Sequence[Question], size: int, siblings: int, seed: int
) -> Iterator[list[Question]]:
    """One epoch of batches of ``size`` questions; what does not fill a batch is left out.

    Each group's questions are dealt out in runs of at most ``siblings``, and the
    runs shuffled: the tools of a run are hard negatives for each other, those of
    the other runs easy ones.
    """
    shuffled = random.Random(seed)  # noqa: S311 - the same order every time
    groups: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[question.group].append(question)
    runs: list[list[Question]] = []
    for group in groups.values():
        shuffled.shuffle(group)
        runs += [group[start : start + siblings] for start in range(0, len(group), siblings)]
    shuffled.shuffle(runs)
    batch: list[Question] = []
    for run in runs:
        batch += run
        while len(batch) >= size:
            yield batch[:size]
            batch = batch[size:]
