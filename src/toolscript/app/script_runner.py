"""Runs scripts of models; imports their sandbox, which needs an extra, for the first one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from toolscript.app.base import ScriptDoor, ScriptOutcome
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.config.settings import CallSettings
from toolscript.config.stored_scripts import SERVER
from toolscript.errors import ConfigError
from toolscript.types import BUILTIN

if TYPE_CHECKING:
    from toolscript.app.script_sandbox import Scripts


class ScriptRunner:
    """Runs scripts. Raises `ConfigError` if models may write some and the extra is missing."""

    def __init__(self, settings: CallSettings) -> None:
        self._settings = settings
        self.is_offered = settings.scripts
        """Whether models may write scripts; those that are stored can always be called."""
        self._scripts = self._load() if settings.scripts else None

    def close(self) -> None:
        """Ends the processes of the sandbox."""
        if self._scripts is not None:
            self._scripts.close()

    async def run(
        self,
        script: str,
        catalogue: ScopedCatalogue,
        door: ScriptDoor,
        arguments: Mapping[str, Any] | None = None,
    ) -> ScriptOutcome:
        """Runs a script: see `Scripts.run`. A stored script has arguments.

        It may call the tools of the catalogue that are for models, but no stored script.
        """
        if self._scripts is None:
            self._scripts = await anyio.to_thread.run_sync(self._load)
        allowed = {
            tool.id: tool
            for tool in catalogue.tools()
            if tool.is_for_models and tool.server not in {SERVER, BUILTIN}
        }
        every = catalogue.gateway.catalogue.tools
        return await self._scripts.run(script, every, allowed, door, arguments)

    def _load(self) -> "Scripts":
        try:
            from toolscript.app.script_sandbox import ScriptLimits, Scripts  # noqa: PLC0415 - of an extra
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"scripts need {error.name}, which is not installed; install it with: "
                "pip install 'toolscript[scripts]', or leave out --scripts"
            ) from None
        limits = self._settings
        return Scripts(
            ScriptLimits(limits.script_calls, limits.script_timeout_s, limits.script_memory_mib)
        )
