import numpy as np

from toolscript.retrieval.semantic.flat_index import FlatIndex


def test_cosines_by_hand() -> None:
    rows = np.array([[1, 0], [0, 1], [0.6, 0.8], [-1, 0]], dtype=np.float32)
    found = FlatIndex(rows).cosines(np.array([0.8, 0.6], dtype=np.float32))
    np.testing.assert_allclose(found, [0.8, 0.6, 0.96, -0.8], rtol=1e-6)
