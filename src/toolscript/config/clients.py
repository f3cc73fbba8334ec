"""The MCP clients whose files `toolscript setup` reads and changes: one row of data for each.

Above each row stands the page that describes its file.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolscript.storage.atomic_files import is_file

_PLATFORMS = ("linux", "darwin", "win32")


@dataclass(frozen=True, slots=True, eq=False)
class ClientFile:
    """A client's file of one scope, and the spelling of its entries."""

    name: str
    """As ``--client`` takes it."""
    title: str
    files: tuple[str, ...]
    """The path below the home directory or the project: one, or those of Linux, macOS, Windows."""
    section: tuple[str, ...] = ("mcpServers",)
    """The keys to the object of servers."""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields of an entry beside the command."""
    is_project: bool = False
    """Whether the file is part of a project, which others share."""
    has_own_directory: bool = False
    """Whether it starts servers in a directory of its own, so that an entry names our file."""
    has_bare_variables: bool = False
    """Whether ``$NAME`` is a variable, as ``${NAME}`` is."""
    timeout_s: float = 0
    """The unit of ``timeout``, a limit for calls, in seconds; 0 if none is documented."""

    def path(self, home: Path, cwd: Path, platform: str = sys.platform) -> Path:
        """Returns the path of the file, whether it exists or not."""
        number = _PLATFORMS.index(platform) if platform in _PLATFORMS else 0
        path = (cwd if self.is_project else home) / self.files[number % len(self.files)]
        other = path.with_suffix(".jsonc")  # opencode reads both, and this one counts
        return other if self.name == "opencode" and is_file(other) else path

    def entry(
        self, document: Mapping[str, Any], command: list[str]
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Returns the keys to toolscript's entry in a file, and the entry.

        Args:
            document: The file's content.
            command: The program and its arguments.
        """
        if self.name != "opencode":
            entry = {"command": command[0], "args": command[1:], **self.fields}
            return (*self.section, "toolscript"), entry
        section: Any = document.get("mcp")
        if isinstance(section, dict) and "servers" in section:  # of version 2
            return ("mcp", "servers", "toolscript"), {"type": "local", "command": command}
        return ("mcp", "toolscript"), {"command": command, **self.fields}


def _below(file: str) -> tuple[str, ...]:
    """Returns the paths of a file in the folder of configurations, on Linux, macOS and Windows."""
    return tuple(f"{r}/{file}" for r in (".config", "Library/Application Support", _ROAMING))


_ROAMING = "AppData/Roaming"
_ALWAYS = {"alwaysLoad": True}
"""Without it Claude Code hides our tools behind a search of its own."""
_STDIO = {"type": "stdio"}
_COPILOT = {"type": "local", "tools": ["*"], "deferTools": "never"}
_OPENCODE = {"type": "local", "enabled": True}
_STORAGE = "Code/User/globalStorage"
_CLINE = f"{_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_ROO = f"{_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
_DESKTOP = _below("Claude/claude_desktop_config.json")
_INSIDERS = _below("Code - Insiders/User/mcp.json")
_ZED = (*[".config/zed/settings.json"] * 2, f"{_ROAMING}/Zed/settings.json")
CLIENTS = (
    # https://code.claude.com/docs/en/mcp
    ClientFile("claude-code", "Claude Code", (".claude.json",), fields=_ALWAYS, timeout_s=0.001),
    ClientFile(
        *("claude-code-project", "Claude Code, project", (".mcp.json",), ("mcpServers",), _ALWAYS),
        is_project=True,
        timeout_s=0.001,
    ),
    # https://modelcontextprotocol.io/docs/develop/connect-local-servers
    ClientFile("claude-desktop", "Claude Desktop", _DESKTOP, has_own_directory=True),
    # https://cursor.com/docs/mcp
    ClientFile("cursor", "Cursor", (".cursor/mcp.json",)),
    ClientFile("cursor-project", "Cursor, project", (".cursor/mcp.json",), is_project=True),
    # https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    ClientFile("vscode", "VS Code", _below("Code/User/mcp.json"), ("servers",), _STDIO),
    ClientFile("vscode-insiders", "VS Code Insiders", _INSIDERS, ("servers",), _STDIO),
    ClientFile(
        *("vscode-workspace", "VS Code, workspace", (".vscode/mcp.json",), ("servers",), _STDIO),
        is_project=True,
    ),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    ClientFile("windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",)),
    # https://developers.openai.com/codex/config-reference
    ClientFile("codex", "Codex", (".codex/config.toml",), ("mcp_servers",)),
    # https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
    ClientFile(
        *("gemini", "Gemini CLI", (".gemini/settings.json",)),
        has_bare_variables=True,
        timeout_s=0.001,
    ),
    # https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    ClientFile("copilot", "Copilot CLI", (".copilot/mcp-config.json",), fields=_COPILOT),
    # https://opencode.ai/docs/mcp-servers
    ClientFile("opencode", "opencode", (".config/opencode/opencode.json",), ("mcp",), _OPENCODE),
    # https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
    ClientFile("zed", "Zed", _ZED, ("context_servers",)),
    # https://docs.cline.bot/mcp/configuring-mcp-servers
    ClientFile("cline", "Cline", _below(_CLINE)),
    # https://docs.roocode.com/features/mcp/using-mcp-in-roo
    ClientFile("roo", "Roo Code", _below(_ROO), timeout_s=1),
    ClientFile(
        "roo-project", "Roo Code, project", (".roo/mcp.json",), is_project=True, timeout_s=1
    ),
)
