"""The effort of these tests, which the option ``--endurance`` sets."""

from pathlib import Path

import pytest

from tests.endurance.effort import SMOKE, Effort

_HERE = Path(__file__).parent
_LONGEST_S = 3600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the long tests of the usual run; in the long one nothing is ended early."""
    ours = [item for item in items if _HERE in item.path.parents]
    if config.getoption("endurance"):
        for item in ours:
            item.add_marker(pytest.mark.timeout(_LONGEST_S), append=False)
        return
    left_out = {item for item in ours if item.get_closest_marker("long")}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def effort(pytestconfig: pytest.Config) -> Effort:
    """All of it with ``--endurance``, else a hundredth."""
    return Effort() if pytestconfig.getoption("endurance") else Effort(SMOKE)
