"""A small realistic catalogue: what the usual reference servers offer."""

from toolscript.types import ToolSpec

ROWS = {
    "filesystem": {
        "read_file": ("Read the complete contents of a text file.", "path", "head", "tail"),
        "write_file": ("Create a new file or overwrite an existing one.", "path", "content"),
        "edit_file": ("Make line-based edits to a text file.", "path", "edits", "dryRun"),
        "list_directory": ("List the files and folders in a directory.", "path"),
        "create_directory": ("Create a new directory, or make sure that it exists.", "path"),
        "move_file": ("Move or rename files and directories.", "source", "destination"),
        "search_files": ("Search recursively for files whose name matches.", "path", "pattern"),
        "get_file_info": ("Size, permissions and modification time of a file.", "path"),
    },
    "git": {
        "git_status": ("Shows the working tree status", "repo_path"),
        "git_commit": ("Records changes to the repository", "repo_path", "message"),
        "git_diff": ("Shows differences between branches or commits", "repo_path", "target"),
        "git_log": ("Shows the commit logs", "repo_path", "max_count"),
        "git_add": ("Adds file contents to the staging area", "repo_path", "files"),
        "git_create_branch": ("Creates a new branch", "repo_path", "branch_name"),
        "git_checkout": ("Switches branches", "repo_path", "branch_name"),
    },
    "time": {
        "get_current_time": ("Get the current time in a timezone", "timezone"),
        "convert_time": ("Convert time between timezones", "source_timezone", "time"),
    },
    "fetch": {"fetch": ("Fetches a URL from the internet and extracts it as markdown.", "url")},
    "memory": {
        "create_entities": ("Create new entities in the knowledge graph", "entities"),
        "create_relations": ("Create relations between entities", "relations"),
        "add_observations": ("Add observations to existing entities", "observations"),
        "delete_entities": ("Delete entities and their relations", "entityNames"),
        "read_graph": ("Read the entire knowledge graph",),
        "search_nodes": ("Search for nodes in the knowledge graph", "query"),
    },
}
SHELL = {
    "shell": {
        "run_command": ("Run a command line in a terminal.", "command", "cwd"),
        "list_sessions": ("List what is still open.",),
    }
}


def tools_of(rows: dict[str, dict[str, tuple[str, ...]]]) -> tuple[ToolSpec, ...]:
    """The tools of such rows: server, tool, description and parameters."""
    return tuple(
        ToolSpec(
            server=server,
            name=name,
            description=description,
            input_schema={"type": "object", "properties": {p: {} for p in parameters}},
        )
        for server, tools in rows.items()
        for name, (description, *parameters) in tools.items()
    )
