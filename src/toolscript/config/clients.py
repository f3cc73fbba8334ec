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
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields of an entry beside the command."""
    section: str = "mcpServers"
    """The key to the object of servers."""
    has_bare_variables: bool = False
    """Whether ``$NAME`` is a variable, as ``${NAME}`` is."""

    @property
    def program(self) -> str:
        """The name, the same for its file of any scope."""
        return self.name.partition("-project")[0]

    @property
    def is_project(self) -> bool:
        """Whether the file is part of a project, which others share."""
        return self.name.endswith(("-project", "-workspace"))

    @property
    def timeout_s(self) -> float:
        """The unit of ``timeout``, a limit for calls, in seconds; 0 if none is documented."""
        return _TIMEOUTS_S.get(self.program, 0)

    def path(self, home: Path, cwd: Path, platform: str = sys.platform) -> Path:
        """Returns the path of the file, whether it exists or not."""
        number = _PLATFORMS.index(platform) if platform in _PLATFORMS else 0
        path = (cwd if self.is_project else home) / self.files[number % len(self.files)]
        other = path.with_suffix(".jsonc")  # opencode reads both, and this one counts
        return other if self.name == "opencode" and is_file(other) else path

    @property
    def approvals(self) -> tuple[str, str, list[str]]:
        """The keys and the file ("" for its own) of its list of tools to allow, and ours there."""
        keys, file, spelling = _APPROVALS.get(self.program, ("", "", ""))
        return keys, file, [spelling.format(tool) for tool in (_LOOKING if file else _SEARCHING)]

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
            return (self.section, "toolscript"), entry
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
_SEARCHING = ["search_tools", "describe_tools", "read_result"]
"""Our tools that call no server."""
_LOOKING = [*_SEARCHING, "read_tool"]
_APPROVED = {"tools": {each: {"approval_mode": "approve"} for each in _LOOKING}}
_AUTO = {"autoApprove": _SEARCHING}
_ALLOWED = {"alwaysAllow": _SEARCHING}
_APPROVALS = {
    "claude-code": ("permissions.allow", "~/.claude/settings.json", "mcp__toolscript__{}"),
    "cursor": ("mcpAllowlist", "~/.cursor/permissions.json", "toolscript:{}"),
    "gemini": ("tools.allowed", "", "mcp_toolscript_{}"),
    "qwen": ("permissions.allow", "", "mcp__toolscript__{}"),
    "copilot": ("--allow-tool", "its command line", "toolscript({})"),
}
_COPILOT = {"type": "local", "tools": ["*"], "deferTools": "never"}
_OPENCODE = {"type": "local", "enabled": True}
_STORAGE = "Code/User/globalStorage"
_CLINE = f"{_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_ROO = f"{_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
_DESKTOP = _below("Claude/claude_desktop_config.json")
_INSIDERS = _below("Code - Insiders/User/mcp.json")
_ZED = (*[".config/zed/settings.json"] * 2, f"{_ROAMING}/Zed/settings.json")
_IN_MILLISECONDS = ("claude-code", "gemini", "qwen", "copilot", "opencode")
_TIMEOUTS_S = {**dict.fromkeys(_IN_MILLISECONDS, 0.001), "roo": 1}
CLIENTS = (
    # https://code.claude.com/docs/en/mcp
    ClientFile("claude-code", "Claude Code", (".claude.json",), _ALWAYS),
    ClientFile("claude-code-project", "Claude Code, project", (".mcp.json",), _ALWAYS),
    # https://modelcontextprotocol.io/docs/develop/connect-local-servers
    ClientFile("claude-desktop", "Claude Desktop", _DESKTOP),
    # https://cursor.com/docs/mcp
    ClientFile("cursor", "Cursor", (".cursor/mcp.json",)),
    ClientFile("cursor-project", "Cursor, project", (".cursor/mcp.json",)),
    # https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    ClientFile("vscode", "VS Code", _below("Code/User/mcp.json"), _STDIO, "servers"),
    ClientFile("vscode-insiders", "VS Code Insiders", _INSIDERS, _STDIO, "servers"),
    ClientFile("vscode-workspace", "VS Code, workspace", (".vscode/mcp.json",), _STDIO, "servers"),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    ClientFile("windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",)),
    # https://developers.openai.com/codex/config-reference
    ClientFile("codex", "Codex", (".codex/config.toml",), _APPROVED, "mcp_servers"),
    # https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
    ClientFile("gemini", "Gemini CLI", (".gemini/settings.json",), has_bare_variables=True),
    # https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
    ClientFile("qwen", "Qwen Code", (".qwen/settings.json",), has_bare_variables=True),
    # https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    ClientFile("copilot", "Copilot CLI", (".copilot/mcp-config.json",), _COPILOT),
    # https://opencode.ai/docs/mcp-servers
    ClientFile("opencode", "opencode", (".config/opencode/opencode.json",), _OPENCODE, "mcp"),
    # https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
    ClientFile("zed", "Zed", _ZED, section="context_servers"),
    # https://docs.cline.bot/mcp/configuring-mcp-servers
    ClientFile("cline", "Cline", _below(_CLINE), _AUTO),
    ClientFile("cline-cli", "Cline CLI", (".cline/data/settings/cline_mcp_settings.json",), _AUTO),
    # https://docs.roocode.com/features/mcp/using-mcp-in-roo
    ClientFile("roo", "Roo Code", _below(_ROO), _ALLOWED),
    ClientFile("roo-project", "Roo Code, project", (".roo/mcp.json",), _ALLOWED),
)
