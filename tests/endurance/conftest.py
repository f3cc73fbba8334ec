"""The effort of these tests, which the option ``--endurance`` sets."""

import pytest

from tests.endurance.effort import SMOKE, Effort


@pytest.fixture(scope="session")
def effort(pytestconfig: pytest.Config) -> Effort:
    """All of it with ``--endurance``, else a hundredth."""
    return Effort() if pytestconfig.getoption("endurance") else Effort(SMOKE)
