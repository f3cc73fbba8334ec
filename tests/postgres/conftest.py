"""An index of many tools, for the tests of what searches it."""

from collections.abc import Callable, Generator

import pytest

from tests.indexed_tools import Indexed
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.postgres.database import Database


@pytest.fixture
def indexed(
    connect: Callable[[], Database], model: LazyModel, encoder: Encoder
) -> Generator[Indexed]:
    indexed = Indexed(connect(), model, encoder)
    yield indexed
    indexed.away.close()
