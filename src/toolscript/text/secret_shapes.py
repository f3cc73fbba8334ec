"""The shapes of secrets, and of the words, paths and options that are none: tables of patterns."""

import re
from functools import cache

WORD_CHARS = re.compile(r"[\w.-]+")
OPTION_NAME = re.compile(
    r"-[\w.-]*|[A-Z][A-Z0-9_]*|[a-z]+(?:[._-][a-z0-9]+)*|[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+"
)
"""The name of an option, a variable, a parameter or a header. Anything else before ``=`` may be
half a secret."""
SECRET_NAME = re.compile(
    r"key|token|secret|pass|pwd|auth|cred|bearer|session|cookie|dsn|jwt|signature|connection"
    r"|(?:^|[-_.])(?:pat|pin|pw|otp|sig|sid)(?:$|[-_.])",
    re.IGNORECASE,
)
PAIR = re.compile(r"""([\w.-]{1,80})["']?\s{0,3}[=:]\s{0,3}["']?([^\s;,&"'}]+)""")
URL_END = re.compile(r"[\s\"<>]")
"""The end of an address: the first character behind it."""
_INSIDE = r"""(?:[^\s"<>@]|(?<=\w)["<>](?=\w))"""
SPACED_USER = re.compile(
    rf"""
    ((?!\[)[^\s"<>@:/?#]*:(?!\d{{1,5}}(?!\w))
    {_INSIDE}+(?:[ \t]+{_INSIDE}+){{0,4}}(?:@[^\s"<>@]*)*)@
    """,
    re.VERBOSE,
)
"""A user and a password with quotes or blanks; a number after the colon is a port."""
SURE_FLAG = re.compile(r"--[a-z]+(?:-[a-z]+)*|-[A-Za-z]")
FLAG = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]|-[a-z][a-z-]+")
AUTH_SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate", "token"})
NO_SECRETS = frozenset("true false yes no on off none null undefined".split())  # noqa: SIM905
HARMLESS_WORDS = NO_SECRETS | frozenset(
    """
    auto default debug trace info notice warning error fatal critical stdio http https
    streamable-http streamable_http json text yaml plain html utf-8 localhost readonly read-only
    read-write production staging development testing master latest stable server verbose enabled
    disabled strict
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
HARMLESS = re.compile(
    r"""
    [a-z]{1,5} | [A-Z]{1,4} | [A-Z]+(?:_[A-Z]+)+
    | \d{1,5}(?:[.:]\d{1,5}){0,4} | \d{1,4}(?:[-/x,]\d{1,4}){1,2} | \d{1,6}[a-zA-Z%]{1,2}
    | [a-z]{2}[_-][A-Z]{2}(?:\.UTF-?8)? | [A-Z][a-z]+(?:/[A-Z][A-Za-z_]+)+
    | (?:application|text|image)/[a-z.+-]+
    | (?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|cloud|local|internal|lan|eu)(?::\d{1,5})?
    | @[\w.-]+/[\w.-]+(?:@[\w.^~-]+)?
    """,
    re.VERBOSE,
)
PATH = re.compile(
    r"""
    (?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w\ .@+~%,():/\\-]* | \.{1,2} | ~
    | [\w./@+-]+\.(?:[cm]?[jt]s|py|rb|php|sh|jar|exe|db|sqlite3?|json|ya?ml|toml|ini|conf|env
                    |csv|txt|md|log|xml|html|pem|crt|key)
    """,
    re.VERBOSE,
)
LAUNCHERS = frozenset(
    """
    npx bunx pnpx uvx uv pipx python python3 py node deno bun docker podman npm pnpm yarn go cargo
    java ruby php dotnet
    """.split()  # noqa: SIM905
)
SWITCHES = frozenset(
    """
    -y --yes -q --quiet --silent -i --interactive -t --tty -it --rm --init -u -S -E -B -I -O -P
    --offline -A --allow-all --isolated run exec dlx tool container
    """.split()  # noqa: SIM905
)
WITH_VALUE = frozenset(
    """
    -e --env -v --volume --mount --name --network --net --publish --env-file -w --workdir
    --platform --python --directory --project
    """.split()  # noqa: SIM905
)
WITH_PROGRAM = frozenset({"-m", "--from", "--with", "--package", "-p"})
PROGRAM_NAME = re.compile(r"[@A-Za-z0-9][\w./@:+~-]*(?:\[[\w,-]+\])?(?:[=<>~!]=[\w.*]+)?")


@cache
def known_tokens() -> re.Pattern[str]:
    """Returns a pattern of known kinds of tokens, and of the word behind ``Bearer``."""
    return re.compile(
        r"""
        (?<![A-Za-z0-9])(?:
            (?:gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_(?:live|test)_|xox[a-z]-|xapp-|whsec_)
                [\w-]{6,}
            | (?:AKIA|ASIA)[A-Z0-9]{8,} | eyJ[\w-]{6,}(?:\.[\w-]*){0,4} | AIza[\w-]{20,}
            | (?:npm_|hf_|pypi-|ts_|dop_v1_|ya29\.|SG\.|gsk_|nvapi-|lin_api_|shpat_)[\w.-]{16,}
        )
        | (?<=[Bb]earer\ )(?=[\w.~+/-]{0,99}[A-Z0-9=])[\w.~+/=-]{6,}
        | (?<=[Bb]asic\ )(?=[\w+/-]{0,99}[A-Z0-9=])[\w+/=-]{6,}
        """,
        re.VERBOSE,
    )
