"""Which rows of a corpus a caller may see, found once for each grant and then remembered."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from toolscript.retrieval.base import Corpus, Mask, Rows
from toolscript.types import SEPARATOR, Grant, SearchRequest

_REMEMBERED = 64
"""For so many grants, and as many choices of servers, the rows are remembered."""
WIDE = re.compile(r"[*?\[]")
"""The characters that make a pattern match more than itself."""


class Visibility:
    """The rows of one corpus as callers may see them. Any thread may ask.

    Patterns are matched with the names of servers, and with ids only if a pattern is of
    single tools. A remembered grant takes a byte for each row.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._granted = lru_cache(_REMEMBERED)(self._find_granted)
        self._of_servers = lru_cache(_REMEMBERED)(self._find_of_servers)

    def mask(self, request: SearchRequest) -> Mask | None:
        """Returns which rows may be found by the caller; None if all may."""
        if request.grant.is_everything and not request.hidden:
            return None
        return self._granted(request.grant, request.hidden)

    def reachable(self, request: SearchRequest) -> Rows:
        """Returns the rows that the caller may see, of the servers that it asks about."""
        visible = self.mask(request)
        if request.servers:
            asked = self._of_servers(request.servers)
            visible = asked if visible is None else visible & asked
        return np.arange(len(self._corpus)) if visible is None else np.flatnonzero(visible)

    def _find_of_servers(self, servers: tuple[str, ...]) -> Mask:
        names = frozenset(servers)
        within = (document.server in names for document in self._corpus.documents)
        return np.fromiter(within, np.bool_, len(self._corpus))

    def _find_granted(self, grant: Grant, hidden: frozenset[str]) -> Mask:
        names, server = self._servers
        granted = matcher(grant.servers)
        mask = np.array([granted(name) for name in names], np.bool_)[server]
        mask[self._rows_of(grant.tools)] = True
        wide = [pattern for pattern in grant.tools if WIDE.search(pattern)]
        if wide:
            matches = matcher(wide)
            for row in self._candidates(wide, mask):
                mask[row] = matches(self._owners[row])
        for selection in grant.within:
            mask &= self._find_granted(selection, frozenset())
        mask[self._rows_of(hidden)] = False
        return mask

    def _candidates(self, patterns: Iterable[str], mask: Mask) -> list[int]:
        """Returns the rows that are not there yet and that a pattern of ids may match."""
        split = [pattern.partition(SEPARATOR) for pattern in patterns]
        if any(WIDE.search(server) or not separator for server, separator, _ in split):
            return np.flatnonzero(~mask).tolist()
        names, server = self._servers
        wanted = {name for name, _, _ in split}
        chosen = np.array([name in wanted for name in names], np.bool_)[server]
        return np.flatnonzero(chosen & ~mask).tolist()

    def _rows_of(self, identifiers: Iterable[str]) -> list[int]:
        """Returns the rows of these tools, or of these parents and their passages."""
        if self._corpus.parent_rows is None:
            known = (self._corpus.rows.get(each) for each in identifiers)
            return [row for row in known if row is not None]
        wanted = frozenset(identifiers)
        return [row for row, owner in enumerate(self._owners) if owner in wanted]

    @cached_property
    def _owners(self) -> list[str]:
        """The ids that grants are about, by row: the document's, or its parent's."""
        return [document.parent_id or document.id for document in self._corpus.documents]

    @cached_property
    def _servers(self) -> tuple[list[str], NDArray[np.intp]]:
        """The servers' names, and by row the number of its server, as ids state it."""
        numbers: dict[str, int] = {}
        found = (
            numbers.setdefault(owner.partition(SEPARATOR)[0], len(numbers))
            for owner in self._owners
        )
        server = np.fromiter(found, np.intp, len(self._corpus))
        return list(numbers), server


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Returns whether a name is one of the patterns, or matches one (``*``, ``?``)."""
    exact = frozenset(patterns)
    wide = [translate(pattern) for pattern in exact if WIDE.search(pattern)]
    matches = re.compile("|".join(wide)).match if wide else None
    return lambda name: name in exact or (matches is not None and matches(name) is not None)
