import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.wholes import Groups


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30))
def test_of_each_whole_the_first_of_the_best_leads(
    documents: list[tuple[int, int, bool]],
) -> None:
    """skills:folders: among the rows that were asked for, in whatever order wholes come."""
    rows = [row for row, (_, _, asked) in enumerate(documents) if asked]
    wholes = [documents[row][0] for row in rows]
    scores = np.array([score for _, score, _ in documents], dtype=np.float32)
    groups = Groups.among(np.array(rows, dtype=np.intp), np.array(wholes, dtype=np.intp))
    best = {
        whole: min(
            (row for row in rows if documents[row][0] == whole),
            key=lambda row: (-documents[row][1], row),
        )
        for whole in set(wholes)
    }
    assert groups.leaders(scores).tolist() == sorted(best.values())
