"""Runs scripts of models; imports their sandbox, which needs an extra, only if they are on."""

from typing import TYPE_CHECKING

from toolscript.app.base import ScriptDoor, ScriptOutcome
from toolscript.app.bytes_under_way import BytesUnderWay
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.errors import ConfigError, UnknownNameError
from toolscript.extras import install_command
from toolscript.types import BUILTIN

if TYPE_CHECKING:
    from toolscript.app.script_sandbox import Scripts


class ScriptRunner:
    """Runs scripts if they are on. Raises `ConfigError` if they are and the extra is missing."""

    def __init__(self, under_way: BytesUnderWay, *, is_on: bool) -> None:
        self._scripts = _load(under_way) if is_on else None

    @property
    def is_on(self) -> bool:
        """Whether models may write scripts."""
        return self._scripts is not None

    def close(self) -> None:
        """Ends the processes of the sandbox."""
        if self._scripts is not None:
            self._scripts.close()

    async def run(self, script: str, catalogue: ScopedCatalogue, door: ScriptDoor) -> ScriptOutcome:
        """Runs a script, which may call the catalogue's tools that are for models.

        Raises the errors of `Scripts.run`, and `UnknownNameError` if scripts are off.
        """
        if self._scripts is None:
            raise UnknownNameError(
                "scripts are off here; the user turns them on with: "
                "toolscript gateway start --scripts"
            )
        allowed = {
            tool.id: tool
            for tool in catalogue.tools()
            if tool.is_for_models and tool.server != BUILTIN
        }
        return await self._scripts.run(script, catalogue.gateway.catalogue.tools, allowed, door)


def _load(under_way: BytesUnderWay) -> "Scripts":
    try:
        from toolscript.app.script_sandbox import Scripts  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"scripts need {error.name}, which is not installed; install it with: "
            f"{install_command('scripts')}, or leave out --scripts"
        ) from None
    return Scripts(under_way)
