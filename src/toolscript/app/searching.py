"""Searches of tools and skills. `Found` is the answer that every surface shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from toolscript.app.health import count_indexed
from toolscript.app.scoped_catalogue import KnownTool, ScopedCatalogue
from toolscript.app.tool_permissions import ToolPermissions
from toolscript.errors import NotReadyError
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.comparison import find_near_held
from toolscript.gateway.gateway import Gateway
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval.engine import NEAREST
from toolscript.retrieval.live_index import LiveIndex
from toolscript.skills.scoped_skills import ScopedSkills
from toolscript.tracing import span
from toolscript.types import SKILLS, Grant, Hit, SearchRequest, SearchResult, ServerStatus


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search for one caller."""

    result: SearchResult
    """Every tool among its hits is one that the caller may call now."""
    tools: Mapping[str, KnownTool] = field(default_factory=dict[str, KnownTool])
    """The tools of the result by id."""
    missing: Sequence[ServerStatus] | None = None
    """The servers whose tools are not known; None if skills were searched alone."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The results, the best first."""
        return self.result.hits


@dataclass(eq=False)
class Searches:
    """Searches the tools and skills of an application, each for the caller's grant."""

    gateway: Gateway
    """The connected servers, with the held tools."""
    index: LiveIndex[Catalogue]
    """Searches the tools."""
    permissions: ToolPermissions
    """The rules, by which tools are denied."""
    catalogue: Callable[[Grant], ScopedCatalogue]
    """Returns the tools that a grant allows."""
    skills: Callable[..., ScopedSkills]
    """Returns the skills that a grant allows; see `App.skills`."""

    @property
    def indexed(self) -> int:
        """How many tools can be found."""
        return count_indexed(self.index, self.gateway)

    async def search(self, request: SearchRequest, history: SessionHistory | None = None) -> Found:
        """Returns the tools that answer, and skills if the request asks for them.

        Args:
            request: The question, and its own settings.
            history: The session that asks: the search is recorded in it.

        Raises:
            NotReadyError: There is nothing to search yet.
            UnknownNameError: A server of the request is not configured.
            SearchTimeoutError: The search took too long.
            QueryError: The query is empty or too long.
            RangeError: The limit, the threshold or α is outside its range.
        """
        catalogue = self.catalogue(request.grant)
        request = replace(request, grant=catalogue.grant)
        catalogue.check(request.servers)
        with span("search") as current:
            result = await self._search(request, catalogue)
            current.set_attribute("toolscript.hits", len(result.hits))
            current.set_attribute("toolscript.degraded", bool(result.degraded))
        if history is not None and not request.skills:
            history.record_search(request.text, [hit.document.id for hit in result.hits])
        shown = (*result.hits, *result.nearest, result.why and result.why.hit)
        tools = catalogue.tools_by_id(hit.document.id for hit in shown if hit)
        # A tool may have been withdrawn while the search went on.
        hits = [hit for hit in result.hits if hit.document.parent_id or hit.document.id in tools]
        missing = catalogue.not_searched(request.servers)
        return Found(replace(result, hits=tuple(hits)), tools, missing)

    async def _search(self, request: SearchRequest, catalogue: ScopedCatalogue) -> SearchResult:
        if not request.skills:
            return await self._search_tools(request, catalogue)
        of_tools = replace(request, skills=False)
        servers = (*request.servers, SKILLS) if request.servers else ()
        of_skills = replace(of_tools, servers=servers, why="")
        skills = await self.skills(request.grant, by_model=request.by_model).search(of_skills)
        if not self.indexed and skills.hits:
            return skills
        return _merge(await self._search_tools(of_tools, catalogue), skills)

    async def _search_tools(
        self, request: SearchRequest, catalogue: ScopedCatalogue
    ) -> SearchResult:
        if not self.indexed:
            fault = self.index.fault
            raise NotReadyError(
                f"no tools can be searched; {fault}" if fault else catalogue.nothing()
            )
        held, denied = self.gateway.catalogue.held, self.permissions.denied(request.grant)
        result = await self.index.search(replace(request, hidden=denied.union(held)))
        if any(map(request.grant.allows, held)):
            every = replace(request, hidden=denied, why="", explain=False)
            near = find_near_held(result, await self.index.search(every), catalogue.is_awaited)
            result = replace(result, held=near)
        if request.why and result.why is None:
            result = replace(result, why=catalogue.why_missing(request.why))
        return result


def _merge(tools: SearchResult, skills: SearchResult) -> SearchResult:
    """Returns two results as one list by (−score, id): both scores are on the same scale."""
    hits = _best((*tools.hits, *skills.hits), tools.limit)
    return replace(
        tools,
        hits=hits,
        nearest=_best((*tools.nearest, *skills.nearest), max(0, NEAREST - len(hits))),
        degraded=tuple(dict.fromkeys((*tools.degraded, *skills.degraded))),
        held=tools.held,
    )


def _best(hits: Iterable[Hit], limit: int) -> tuple[Hit, ...]:
    best = sorted(hits, key=lambda hit: (-hit.score, hit.document.parent_id or hit.document.id))
    return tuple(best[:limit])
