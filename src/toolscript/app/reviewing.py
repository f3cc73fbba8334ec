"""Approves and rejects tools whose definitions are new or have changed."""

from collections.abc import Collection, Mapping

from toolscript.errors import InputError, OutdatedDecisionError, UnknownNameError
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.definitions.normal_form import normal_form
from toolscript.gateway.gateway import Gateway
from toolscript.text.display import printable


async def review(
    gateway: Gateway,
    approved: Collection[str] = (),
    rejected: Collection[str] = (),
    *,
    seen: Mapping[str, str] | None = None,
) -> None:
    """Approves and rejects tools: all of them, or none if an error is raised.

    Args:
        gateway: Has the tools, and stores the decision.
        approved: The ids of held tools that are approved.
        rejected: The ids of tools that are rejected. One that is not held loses its approval.
        seen: The `HeldTool.digest` of each that a person has looked at, by its id; None
            decides about them as they are now.

    Raises:
        InputError: A tool is both approved and rejected.
        UnknownNameError: No tool to decide about has one of the ids.
        OutdatedDecisionError: One of them is another than ``seen`` has it.
        DecisionStorageError: The decision cannot be stored.
    """
    for name in {*approved} & {*rejected}:
        raise InputError(f"{printable(name, 100)!r} is to be approved and rejected; choose one")
    held = gateway.catalogue.held
    accepted = gateway.catalogue.tools
    withdrawn = {
        name: HeldTool(
            tool=accepted[name],
            reason="withdrawn",
            before=normal_form(accepted[name]),
            rejected=True,
        )
        for name in rejected
        if name in accepted
    }
    to_approve = _choose(approved, held, seen)
    to_reject = _choose(rejected, {**withdrawn, **held}, seen)
    await gateway.approve(to_approve)
    await gateway.reject(to_reject)


def _choose(
    names: Collection[str], tools: Mapping[str, HeldTool], seen: Mapping[str, str] | None
) -> list[HeldTool]:
    """Returns the tools that a decision names; see `review` for the errors."""
    for name in names:
        if name not in tools:
            known = ", ".join(tools) or "nothing"
            raise UnknownNameError(f"{printable(name, 100)!r} is not held; held is: {known}")
    chosen = [tools[name] for name in dict.fromkeys(names)]
    for held in chosen:
        if seen is not None and seen.get(held.tool.id) != held.digest:
            raise OutdatedDecisionError(
                f"{held.tool.id} has changed since it was looked at, and nothing is decided; "
                f"look at it with: toolscript review {held.tool.server}"
            )
    return chosen
