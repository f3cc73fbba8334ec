"""The formats, limits and defaults that pages state are those of the code."""

import re

import pytest

from tests.docs.pages import DOCS
from toolscript.app.script_sandbox import LIMITS
from toolscript.embedding.vector_cache import VERSION
from toolscript.gateway.upstream import backoff
from toolscript.retrieval.live_index import SEARCH_TIMEOUT_S

ARCHITECTURE = "explanation/architecture.md"
RETRIES = (
    f"tried again after {backoff.FIRST_RETRY_S:g} s, then after twice as long each time, "
    f"up to {backoff.LAST_RETRY_S:g} s"
)
FILES = "reference/files.md"
SCRIPT_LIMITS = (
    f"| calls | {LIMITS.calls} | | time to compute (calls do not count), and to sleep "
    f"| {LIMITS.seconds:g} s | | memory | {LIMITS.memory_mib} MiB |"
)
FACTS = [
    (FILES, f'| `version` | `"{VERSION}"`; raised when the text that is embedded'),
    (ARCHITECTURE, RETRIES),
    ("guides/scripts.md", SCRIPT_LIMITS),
    (ARCHITECTURE, f"A search that takes longer than {SEARCH_TIMEOUT_S:g} s ends"),
]


@pytest.mark.parametrize(("page", "fact"), FACTS)
def test_a_page_states_what_the_code_does(page: str, fact: str) -> None:
    assert fact in re.sub(r"\s+", " ", (DOCS / page).read_text("utf-8"))
