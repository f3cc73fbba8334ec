"""Made-up requests through every door: a short run of ``python -m benchmarks.fuzz``."""

import pytest
from benchmarks.fuzz import DOORS, fuzz


@pytest.mark.parametrize("door", DOORS)
def test_made_up_requests_find_no_fault(door: str) -> None:
    """No 5xx without a cause, no traceback, no hang, no growth; answers fit the document."""
    [result] = fuzz([door], 200, seed=1)
    assert result.faults == []
    assert result.is_clean, (result.growth_mib, result.descriptors)
    assert result.cases >= 100
