"""Decides about each tool by the rules of the configuration and of the caller."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from toolscript.config.permission_rules import (
    PermissionProfile,
    decide,
    default_decision,
    literal,
    sources_for,
)
from toolscript.config.servers import Config
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.types import Decision, Grant, PermissionRule, ToolSpec

_MAX_GRANTS = 256


@dataclass(frozen=True, slots=True)
class _Denied:
    """The tools of one catalogue that rules deny."""

    config: Config
    catalogue: Catalogue
    by_server: Mapping[str, tuple[str, ...]]
    ids: frozenset[str]


class ToolPermissions:
    """Decides by the gateway's present configuration. Any thread may ask.

    Args:
        gateway: Has the configuration, and the tools.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._denied: OrderedDict[Grant, _Denied] = OrderedDict()

    @property
    def written(
        self,
    ) -> tuple[Sequence[Sequence[PermissionRule]], Mapping[str, PermissionProfile]]:
        """The rules of each file of the configuration, and its profiles by name."""
        return self._gateway.config.permissions, self._gateway.config.profiles

    def narrow(self, grant: Grant) -> Grant:
        """Returns a grant within the selections that its profiles have now."""
        profiles = self._gateway.config.profiles
        chosen = (profiles[name].selection for name in grant.profiles if name in profiles)
        within = tuple(selection for selection in chosen if selection is not None)
        return grant if within == grant.within else replace(grant, within=within)

    def rule(self, grant: Grant, tool: ToolSpec) -> PermissionRule | None:
        """Returns the rule that counts for a caller and a tool; None if there is none."""
        return decide(self._sources(grant), tool.id, tool.tool_class)

    def decision(self, grant: Grant, tool: ToolSpec) -> tuple[Decision, str]:
        """Returns the decision about a call, and its reason as a clause; "" for the default."""
        rule = self.rule(grant, tool)
        if rule is None:
            return default_decision(tool.tool_class), ""
        return rule.decision, clause_of(rule)

    def denied(self, grant: Grant) -> frozenset[str]:
        """Returns the ids of the granted tools that rules deny: they are not found either."""
        config, catalogue = self._gateway.config, self._gateway.catalogue
        known = self._denied.get(grant)
        if known is not None and known.config is not config:
            known = None
        if known is None or known.catalogue is not catalogue:
            known = self._denied[grant] = self._find_denied(grant, config, catalogue, known)
            if len(self._denied) > _MAX_GRANTS:
                self._denied.popitem(last=False)
        return known.ids

    def denies_reading(self, grant: Grant, identifier: str) -> bool:
        """Whether rules deny reading a skill, or the prompts and resources of a server.

        These count as tools that read. That a person is asked first is for calls only.

        Args:
            grant: The caller's.
            identifier: A skill's id; ``server__*`` for the prompts and resources of a server.
        """
        rule = decide(self._sources(grant), identifier, "read")
        return rule is not None and rule.decision == "deny"

    def readable(self, grant: Grant, skills: Iterable[str], withheld: Collection[str]) -> Grant:
        """Returns the part of a grant for skills that no rule denies; see `denies_reading`.

        Args:
            grant: The caller's.
            skills: The ids of all skills.
            withheld: Those that this caller does not get, whatever the rules say.
        """
        granted = [skill for skill in skills if grant.allows(skill)]
        allowed = (skill for skill in granted if not self.denies_reading(grant, skill))
        rest = [skill for skill in allowed if skill not in withheld]
        if rest == granted:
            return grant
        return replace(grant, servers=(), tools=tuple(map(literal, rest)))

    def _find_denied(
        self, grant: Grant, config: Config, catalogue: Catalogue, known: _Denied | None
    ) -> _Denied:
        """Decides about the tools of servers that were not ``known``, or have changed."""
        sources = sources_for(config.permissions, config.profiles, grant)
        if not any(rule.decision == "deny" for rules in sources for rule in rules):
            return _Denied(config, catalogue, {}, frozenset())
        by_server: dict[str, tuple[str, ...]] = {}
        for name, entry in catalogue.servers.items():
            if known is not None and known.catalogue.servers.get(name) is entry:
                by_server[name] = known.by_server[name]
                continue
            tools = catalogue.tools_of(name).tools
            rules = ((t.id, decide(sources, t.id, t.tool_class)) for t in tools)
            denied = (each for each, rule in rules if rule and rule.decision == "deny")
            by_server[name] = tuple(filter(grant.allows, denied))
        return _Denied(
            config, catalogue, by_server, frozenset(chain.from_iterable(by_server.values()))
        )

    def _sources(self, grant: Grant) -> Sequence[Sequence[PermissionRule]]:
        config = self._gateway.config
        return sources_for(config.permissions, config.profiles, grant)


def clause_of(rule: PermissionRule) -> str:
    """Returns a rule as a clause: ``permissions says ask for destructive tools``."""
    what = f"{rule.tool_class} tools" if rule.tool_class else rule.pattern
    return f"{rule.origin or 'a rule'} says {rule.decision} for {what}"
