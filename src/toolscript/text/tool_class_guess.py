"""Guesses from a tool's name and parameters how much a call of it may do.

The guess is for tools whose server says nothing. It is careful: only a name that begins with a
known verb is less than destructive, and a word for destroying counts wherever it stands.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, cast

from toolscript.text.words import words

_GETTING = frozenset(["describe", "fetch", "get", "retrieve"])
"""Verbs that are no nouns: words before them are nouns, as in ``crm_get_contact``."""
_READING = _GETTING | frozenset(
    """
    analyse analyze browse calculate compare compute convert count diff estimate explain find
    inspect list lookup parse preview query read search show summarize translate view
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_STATES = frozenset("health help history info stats status version whoami".split())  # noqa: SIM905
"""Nouns that say alone that something is read, as in ``git_status``."""
_ADDING = frozenset("add append create duplicate generate insert send submit".split())  # noqa: SIM905
_WRITING = _ADDING | {"clone", "comment", "draft", "invite", "post", "reply"}
"""The further ones are nouns, too: only as a name's first verb do they say that it writes."""
_DESTROYING = frozenset(
    """
    buy cancel clean cleanup clear deactivate del delete destroy disable drop edit enable erase eval
    exec execute flush import install kill lock modify move nuke overwrite patch pay pop prune purge
    push reboot remove rename replace reset restore revoke rm save sell set shell shutdown stop
    terminate transfer trim truncate uninstall unlink unset update upload upsert wipe withdraw write
    """.split()  # noqa: SIM905
)
"""Verbs for destroying and changing, and those that run a program, which may do both."""
_MONEY = frozenset("crypto funds money order payment payout tokens transaction".split())  # noqa: SIM905
"""Nothing takes them back once they are sent."""
_PROGRAMS = frozenset("bash cmd command commands cypher script scripts shell sql statement".split())  # noqa: SIM905
_CODE = ({"code"}, {"js", "code"}, {"python", "code"}, {"source", "code"}, {"javascript"})
"""Words of parameters that hold a program to be run."""
_STORING = frozenset(["destination", "download", "export", "output", "response", "save"])
_FILES = frozenset(["destination", "dir", "directory", "file", "filename", "folder", "path"])
"""A parameter with a word of each names a file to be written."""
_PREFIXES = frozenset(["api", "mcp", "server", "tool"])
_JOINING = frozenset(["and", "or", "then"])


def guess_class(
    server: str, name: str, input_schema: dict[str, Any]
) -> Literal["read", "write", "destructive"]:
    """Returns the most that a call may do, by the first verb of a tool's name.

    Args:
        server: The server's name, whose words may stand before the verb: ``sqlite_list_tables``.
        name: The tool's name. With a verb that is not known, the tool is destructive.
        input_schema: Its parameters. A tool that takes code or a command is destructive.
    """
    spoken = words(name)
    place = _find_verb(spoken, {*_PREFIXES, *words(server)})
    parameters = _list_parameters(input_schema)
    if place is None or not _DESTROYING.isdisjoint(spoken) or _take_program(parameters):
        return "destructive"
    verb, further = spoken[place], spoken[place + 1 :]
    joined = {after for word, after in pairwise(further) if word in _JOINING}
    if (verb == "query" and ["query"] in parameters) or joined - _READING - _WRITING:
        return "destructive"
    if not _WRITING.isdisjoint((verb, *joined)) or not _ADDING.isdisjoint(further):
        return "write" if _MONEY.isdisjoint(spoken) else "destructive"
    return "write" if _name_file(parameters) else "read"


def _find_verb(spoken: Sequence[str], prefixes: Iterable[str]) -> int | None:
    """Returns the place of a name's verb; None if the name does not begin with a known one."""
    for place, word in enumerate(spoken):
        is_last = place == len(spoken) - 1
        if word in _READING or word in _WRITING or (word in _STATES and is_last):
            before = set(spoken[:place])
            is_noun = word in _GETTING and before.isdisjoint(_JOINING)
            return place if is_noun or before.issubset(prefixes) else None
    return None


def _list_parameters(input_schema: dict[str, Any]) -> list[list[str]]:
    """Returns the words of each parameter's name in a third party's schema."""
    properties: Any = input_schema.get("properties")
    if not isinstance(properties, dict):
        return []
    return [words(str(name)) for name in cast("dict[Any, Any]", properties)]


def _name_file(parameters: Iterable[Sequence[str]]) -> bool:
    return any(not _STORING.isdisjoint(each) and not _FILES.isdisjoint(each) for each in parameters)


def _take_program(parameters: Iterable[Sequence[str]]) -> bool:
    return any(not _PROGRAMS.isdisjoint(each) or set(each) in _CODE for each in parameters)
