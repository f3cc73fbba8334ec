"""Calls of tools: permitted, checked, sent to a server, and learned from."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import anyio.to_thread

from toolscript.app.argument_checks import check_arguments
from toolscript.app.call_approvals import Approvals, CallRequest
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.config.permission_rules import decide
from toolscript.errors import DeniedError, ToolClassError, UnknownNameError, UpstreamError
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.tracing import fail, tool_call
from toolscript.types import EVERYTHING, TOOL_CLASSES, Grant, ToolClass, ToolSpec


class Calls:
    """Calls the tools of an application, each for the caller's grant.

    Args:
        catalogue: Returns the tools that a grant allows.
        approvals: Asks a person about calls.
        learning: Learns from calls; None learns nothing.
        broken_rules: Returns why the rules of the files cannot be read; "" if they can.
    """

    def __init__(
        self,
        catalogue: Callable[[Grant], ScopedCatalogue],
        approvals: Approvals,
        learning: Learning | None,
        broken_rules: Callable[[], str],
    ) -> None:
        self._broken_rules = broken_rules
        self._catalogue = catalogue
        self._approvals = approvals
        self._learning = learning

    async def call(  # noqa: PLR0913 - the parts of a call
        self,
        name: str,
        arguments: Mapping[str, Any],
        caller: Caller = SILENT_CALLER,
        grant: Grant = EVERYTHING,
        *,
        history: SessionHistory | None = None,
        session: str = "",
        classes: Collection[ToolClass] = TOOL_CLASSES,
        checked: bool = True,
        by_model: bool = False,
        **more: Any,
    ) -> dict[str, Any]:
        """Calls a tool. The result is its server's, as on the wire of MCP; ``isError`` included.

        That the tool was called, and whether it succeeded, is learned from.

        Args:
            name: The tool's id, or its name if only one server has it.
            arguments: The arguments, which have to fit the tool's schema.
            caller: Gets notifications of progress and answers the server's questions.
            grant: The tools that the caller may call.
            history: The session of which the call is a step; None: of a session by itself.
            session: The id of that session: a person may allow a tool for the whole of it.
            classes: The classes that the tool may have; a tool of another class is not called.
            checked: Whether the tool's schema is applied to the arguments before its server
                judges them.
            by_model: Whether a model has chosen the tool; some tools are for a server's page alone.
            more: Further members of the call's parameters in MCP.

        Raises:
            UnknownNameError: The caller knows no such tool.
            ToolClassError: The tool is of another class than ``classes``.
            HeldError: The tool's definition has changed, and waits for approval.
            DeniedError: A rule or a person denies the call, or the tool is not for models.
            ArgumentsError: The arguments do not fit the tool's schema.
            UpstreamError: The server is not connected, refuses the call or does not answer.
        """
        catalogue = self._catalogue(grant)
        builtin = catalogue.builtin_tool(name)
        if builtin:
            check_class(builtin.spec, classes)
            await self._permit(builtin.spec, arguments, caller, catalogue, session)
            return await anyio.to_thread.run_sync(builtin.call, arguments)
        tool = await _reach(catalogue, name, caller)
        check_class(tool, classes)
        if by_model and (obstacle := tool.obstacle_for_models):
            raise DeniedError(f"{tool.id} {obstacle}, not for models")
        if checked:
            arguments = check_arguments(tool.id, tool.input_schema, arguments)
        arguments = tool.arguments(arguments)
        await self._permit(tool, arguments, caller, catalogue, session)
        params = {"name": tool.original.name, "arguments": arguments, **more}
        learn = partial(self._learn, history or SessionHistory(), tool.id, grant)
        try:
            with tool_call(tool.server, tool.name) as current:
                result = await catalogue.request(tool.server, "tools/call", params, caller)
                if result.get("isError"):
                    fail(current, "tool_error")
        except UpstreamError:
            learn(succeeded=False)
            raise
        if result.get("resultType") != "input_required":  # a task has begun well
            learn(succeeded=not result.get("isError"))
        return result

    async def _permit(
        self,
        tool: ToolSpec,
        arguments: Mapping[str, Any],
        caller: Caller,
        catalogue: ScopedCatalogue,
        session: str,
    ) -> None:
        """Returns if the rules or a person allow a call; else raises `DeniedError`.

        Without a rule only a caller that can ask its user is asked: any other one has decided.
        """
        if tool.tool_class != "read" and (problem := self._broken_rules()):
            raise DeniedError(
                f"{tool.id} was not called: while rules cannot be read, only tools that read may "
                f"be called ({problem})"
            )
        grant = catalogue.grant
        decision, why = catalogue.permissions.decision(grant, tool)
        if decision == "deny":
            raise DeniedError(f"{tool.id} may not be called: {why}")
        if decision == "ask" and (why or caller.may_be_asked):
            own = decide((grant.permissions,), tool.id, tool.tool_class)
            if own is not None and own.decision == "ask":  # its bearer is who it binds
                caller = SILENT_CALLER
            await self._approvals.ask(
                CallRequest(
                    tool=tool,
                    arguments=arguments,
                    caller=caller,
                    holder=grant.holder,
                    session=session,
                    why=why or "destructive tools are asked about",
                    secrets=catalogue.gateway.secrets_of(tool.server),
                )
            )

    def _learn(self, history: SessionHistory, tool: str, grant: Grant, *, succeeded: bool) -> None:
        if self._learning is not None:
            self._learning.record_call(history, tool, succeeded=succeeded, grant=grant)


async def _reach(catalogue: ScopedCatalogue, name: str, caller: Caller) -> ToolSpec:
    """Returns a tool, once its server lists it; asks a server that has failed once more."""
    try:
        return await catalogue.tool_when_ready(name)
    except UnknownNameError:
        await catalogue.reach_server(name, caller)
        return catalogue.tool(name)


def check_class(tool: ToolSpec, classes: Collection[ToolClass]) -> None:
    """Raises `ToolClassError` for a tool that is of none of these classes."""
    if tool.tool_class not in classes:
        allowed = " or ".join(classes)
        raise ToolClassError(
            f"{tool.id} is a {tool.tool_class} tool, and this call is for {allowed} tools",
            tool.tool_class,
        )
