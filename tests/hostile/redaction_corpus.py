"""What must never be shown, and what must stay readable: data for the tests and for the attack.

Each case is an entry of a configuration with a secret in it. A server that has it may say it at
any moment, in any spelling that programs use; none of them may come out at any door.
"""

import base64
import html
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, unquote

LONG = 1000
"""A longer secret, every character of which is escaped, does not fit into a message."""
WORD = "hunter2-correct-horse"
GITHUB = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlLWhlcmU"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIEowIBAAKCAQEAxGKbFakeFakeFake1234\nabcdEFGHijklMNOPqrstUVWXyz567890\n"
    "-----END RSA PRIVATE KEY-----"
)


@dataclass(frozen=True)
class Case:
    """One secret in one place of an entry."""

    name: str
    secret: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    """Other fields of the entry, such as ``url`` and ``headers``."""


def _args(name: str, secret: str, *args: str) -> Case:
    return Case(name, secret, tuple(each.replace("{}", secret) for each in args))


def _env(name: str, secret: str, variable: str, value: str = "{}") -> Case:
    return Case(name, secret, env={variable: value.replace("{}", secret)})


def _remote(name: str, secret: str, url: str = "http://127.0.0.1:1/mcp", **headers: str) -> Case:
    filled = {key.replace("_", "-"): value.replace("{}", secret) for key, value in headers.items()}
    return Case(name, secret, more={"url": url.replace("{}", secret), "headers": filled})


_BASIC = base64.b64encode(f"user:{WORD}".encode()).decode()

CASES: tuple[Case, ...] = (
    _args("option", WORD, "--api-key", "{}"),
    _args("option with =", WORD, "--api-key={}"),
    _args("option of no telling name", WORD, "--flavour", "{}"),
    _args("option of no telling name, =", WORD, "--flavour={}"),
    _args("--pat", WORD, "--pat", "{}"),
    _args("--pwd", WORD, "--pwd", "{}"),
    _args("-p", WORD, "-p", "{}"),
    _args("-p, a word", "hunter", "-p", "{}"),
    _args("-p without a blank", "S3cret-horse", "-p{}"),
    _args("-p without a blank, symbols", "!S3cret?horse", "-p{}"),
    _args("--bearer", WORD, "--bearer", "{}"),
    _args("--session", WORD, "--session", "{}"),
    _args("--jwt", JWT, "--jwt", "{}"),
    _args("positional", WORD, "{}"),
    _args("second positional", WORD, "serve", "8080", "{}"),
    _args("positional token", GITHUB, "{}"),
    _args("positional after a path", "correcthorsebattery", "/var/lib/data", "{}"),
    _args("header in one argument", WORD, "--header=Authorization: Bearer {}"),
    _args("header in two", WORD, "--header", "Authorization: Bearer {}"),
    _args("cookie", WORD, "--header", "Cookie: sid={}; theme=dark"),
    _args("cookie in one", WORD, "--header=Cookie: sid={}"),
    _args("X-Api-Key", WORD, "-H", "X-Api-Key: {}"),
    _args("basic, decoded", WORD, "-H", f"Authorization: Basic {_BASIC}"),
    _args("address, / in the password", "pa/ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address in an option, /", "pa/ss-word9", "--dsn=postgresql://user:{}@db.internal/app"),
    _args("address, # in the password", "pa#ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, ? in the password", "pa?ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, @ in the password", "pa@ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, : in the password", "pa:ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, all of them", "p@:/?#[]word9", "mysql://user:{}@db.internal:3306/app"),
    _args("address, number first", "12/ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, short password", "pw1", "postgresql://user:{}@db.internal/app"),
    _args("address, escaped", "pa/ss word9", "redis://:pa%2Fss%20word9@db.internal:6379/0"),
    _args(
        "address, a blank in the password", "pa ss-word9", "postgresql://user:{}@db.internal/app"
    ),
    _args("address, blanks", "my pa ss/word 9", "--dsn=redis://:{}@db.internal"),
    _args("address, a number and a blank", "12 ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, @ and blanks", "pa ss-w@rd 99", "--dsn=postgresql://user:{}@db.internal/app"),
    _args("address, a line", "pa\nss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, a quote", 'pa"ss-word9', "postgresql://user:{}@db.internal/app"),
    _args("address, <", "pa<ss-word9", "postgresql://user:{}@db.internal/app"),
    _args("address, a blank in JSON", "pa ss-word9", '{"db": "mysql://u:{}@db.internal/app"}'),
    _args("address, a blank in the query", "pa ss-word9", "https://host.internal/?key={}&x=1"),
    _env("address, a blank in env", "pa ss-word9", "DB", "postgresql://user:{}@db.internal/app"),
    _remote("address, a blank in url", "pa ss-word9", "http://user:{}@127.0.0.1:1/mcp"),
    *(
        Case(f"in the place of {key}", WORD, ("x",), more={key: WORD})
        for key in ("type", "transport", "protocol", "start", "instances")
    ),
    Case("in the place of url", WORD, more={"url": WORD}),
    Case("token in the place of type", GITHUB, ("x",), more={"type": GITHUB}),
    _args("address, user alone", "tok/en-secret9", "amqp://{}@mq.internal"),
    _args("address, mongodb+srv", WORD, "mongodb+srv://me:{}@c0.example.net/?retryWrites=true"),
    _args("address, http", "pa/ss-word9", "--url", "http://user:{}@host.internal/x"),
    _args("address, query", WORD, "https://host.internal/mcp?key={}&x=1"),
    _args("address, random path", "xY9zQ8wV7uT6sR5p", "https://hooks.example.com/services/T0/{}"),
    _args("connection string", WORD, "Server=db.internal;User=me;Password={};Encrypt=yes"),
    _args("account key", "aGVsbG8rd29ybGQ/cGFzcw==", "--storage", "Name=me;AccountKey={};X=core"),
    _args("JSON", WORD, '{"apiKey": "{}", "region": "eu"}'),
    _args("JSON, deeper", WORD, "--config", '{"auth": {"user": "me", "values": ["{}"]}}'),
    _args("JSON, token by its shape", GITHUB, "--config", '{"x": ["{}"]}'),
    _args("JSON, address", "pa/ss-word9", '{"db": "postgresql://u:{}@db.internal/app"}'),
    _args("begins with -", "-abc-secret-word", "--client-secret", "{}"),
    _args("begins with --", "--abc-secret-9", "--client-secret", "{}"),
    _args("begins with /", "/abc/secret-word", "--token", "{}"),
    _args("variable", WORD, "-e", "GITHUB_TOKEN={}"),
    _args("variable of no telling name", WORD, "--env=FLAVOUR={}"),
    _args("user and password", WORD, "-u", "me:{}"),
    _args("short number", "4711", "--pin", "{}"),
    _args("six digits", "831207", "{}"),
    _args("short word", "s3cr", "--password", "{}"),
    _args("private key", PEM, "--key", "{}"),
    _args("quotes", """it's "quoted" pass""", "--passphrase", "{}"),
    _args("backslashes", r"back\slash\secret", "--passphrase", "{}"),
    _args("blanks", "correct horse battery staple", "--passphrase", "{}"),
    _args("not ASCII", "pässwörd-ключ-秘密", "--passphrase", "{}"),
    _args("percent signs", "100%-secret&more+", "--passphrase", "{}"),
    _args("very long", "s3cretWord" * 600, "--passphrase", "{}"),
    _env("variable of env", WORD, "API_TOKEN"),
    _env("of no telling name", WORD, "FLAVOUR"),
    _env("short password", "s3cr", "DB_PASSWORD"),
    _env("three letters", "abc", "DB_PASSWORD"),
    _env("short, of no telling name", "ab1!", "FLAVOUR"),
    _env("digits", "831207", "LOGIN_PIN"),
    _env("path of a telling name", "/etc/secret-word", "MASTER_KEY"),
    _env("address in env", "pa/ss-word9", "DATABASE_URL", "postgresql://user:{}@db.internal/app"),
    _env("JSON in env", WORD, "SERVICE_ACCOUNT", '{"private_key": "{}", "type": "service"}'),
    _env("private key in env", PEM, "DEPLOY_KEY"),
    _env("blanks around", WORD, "API_TOKEN", "  {}  "),
    _env("quotes in env", """it's "quoted" pass""", "FLAVOUR"),
    _env("backslashes in env", r"back\slash\secret", "FLAVOUR"),
    _env("symbols in env", "p@ss/w#rd?&=+", "FLAVOUR"),
    Case("from a variable", WORD, ("--flavour", "${CORPUS_VARIABLE}")),
    _remote("bearer", WORD, Authorization="Bearer {}"),
    _remote("basic", WORD, Authorization=f"Basic {_BASIC}"),
    _remote("cookie header", WORD, Cookie="theme=dark; sid={}"),
    _remote("header of no telling name", WORD, X_Flavour="{}"),
    _remote("query of url", WORD, "http://127.0.0.1:1/mcp?key={}"),
    _remote("user of url", WORD, "http://me:{}@127.0.0.1:1/mcp"),
    _remote("path of url", "xY9zQ8wV7uT6sR5p", "http://127.0.0.1:1/s/{}/mcp"),
    _remote("bad port", "pa/ss-word9", "http://user:{}@127.0.0.1:1/mcp"),
    _remote("bad port, #", "pa#ss-word9", "http://user:{}@127.0.0.1:1/mcp"),
)
SHORT = 5
"""Secrets no longer than this are not promised to be found within the base64 of a longer text."""
VARIABLES = {"CORPUS_VARIABLE": WORD}


def spellings(secret: str) -> dict[str, str]:
    """How programs write a text, by what does it; each is a whole line of theirs."""
    data = secret.encode()
    coded = base64.b64encode(data).decode()
    return {
        "as it is": f"cannot use {secret} here",
        "between colons": f"bad value:{secret}: try again",
        "Python": f"ValueError: {secret!r} is not valid",
        "Python, in a list": f"unknown arguments: {['--x', secret]!r}",
        "JSON": f"got {json.dumps({'value': secret})}",
        "JSON, not ASCII": f"got {json.dumps([secret], ensure_ascii=False)}",
        "JSON in JSON": f"got {json.dumps(json.dumps({'value': secret}))}",
        "URL": f"GET /?q={quote(secret, safe='')} failed",
        "path of a URL": f"GET /{quote(secret)} failed",
        "form": f"body q={quote_plus(secret)}",
        "URL, small": "GET /?q="
        + re.sub("%..", lambda each: each[0].lower(), quote(secret, safe="")),
        "base64": f"Authorization is {coded}",
        "base64 without padding": f"x {coded.rstrip('=')} y",
        **(_in_more(data) if len(secret) > SHORT else {}),
        "hex": f"x {data.hex()} y",
        **(_escaped(secret) if len(secret) < LONG else {}),
        "HTML": f"<b>{html.escape(secret, quote=False)}</b>",
        "loud": f"UNKNOWN OPTION {secret.upper()}",
    }


def _escaped(secret: str) -> dict[str, str]:
    data = secret.encode()
    return {
        "JSON, every character": "x " + "".join(f"\\u{ord(each):04X}" for each in secret),
        "HTML, every character": "x " + "".join(f"&#{ord(each)};" for each in secret),
        "HTML, hexadecimal": "x " + "".join(f"&#x{ord(each):x};" for each in secret),
        "URL, every byte": "x " + "".join(f"%{each:02x}" for each in data),
        "Python, bytes": f"ValueError: {data!r} is not valid",
    }


def leaked(secret: str, shown: str) -> str:
    """The part of a secret, as it is or in base64, that stands in a text; empty where none does.

    Of one with more than eight characters any eight in a row count, of a shorter one the whole
    as a word of its own. SHA-256 digests are left out: they hold short words by chance.
    """
    shown = re.sub(r"\b[0-9a-f]{64}\b", "", shown)
    shown += html.unescape(shown) + unquote(shown)
    shown += re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), shown)
    spelled = {secret, secret.upper(), json.dumps(secret)[1:-1], quote(secret, safe="")}
    spelled.add(base64.b64encode(secret.encode()).decode().rstrip("="))
    spelled.add(secret.encode().hex())
    for text in spelled:
        size = min(8, len(text))
        parts = (text[at : at + size] for at in range(len(text) - size + 1))
        for part in parts:
            if part in shown:
                return part
    return ""


def _in_more(data: bytes) -> dict[str, str]:
    return {
        "base64 of more": f"x {base64.b64encode(b'user:' + data).decode()} y",
        "base64 of more, again": f"x {base64.b64encode(b'me:' + data + b';').decode()} y",
        "base64 for URLs": f"x {base64.urlsafe_b64encode(b'u:' + data).decode()} y",
    }


UNKNOWN: dict[str, tuple[str, str]] = {
    "braces": ('{"password":"true},{"}', "true},{"),
    "flow": ("{password:true,token:hunter22}", "hunter22"),
    "GitHub": (f"bad credentials for {GITHUB}", GITHUB),
    "OpenAI": ("Incorrect API key provided: sk-proj-abc123DEF456ghi789", "abc123DEF456ghi789"),
    "Slack": ("xoxb-123456789012-abcdefGHIJKL rejected", "123456789012-abcdefGHIJKL"),
    "AWS": ("The key AKIAFAKEFAKE1234ABCD is unknown", "AKIAFAKEFAKE1234ABCD"),
    "JWT": (f"token expired ({JWT})", JWT),
    "bearer": ("sent: Bearer abc.DEF-123_456~7", "abc.DEF-123_456~7"),
    "assignment": ("DB_PASSWORD=swordfish99 was ignored", "swordfish99"),
    "assignment, spaced": ("password = swordfish99", "swordfish99"),
    "assignment, quoted": ("password: 'open sesame 99'", "sesame 99"),
    "JSON": ('{"clientSecret":"swordfish 99","x":1}', "swordfish 99"),
    "JSON in JSON": (r'"{\"apiKey\":\"swordfish99\"}"', "swordfish99"),
    "YAML": ("api_key: swordfish99", "swordfish99"),
    "Ruby": ("{:secret => 'swordfish99'}", "swordfish99"),
    "connection string": ("Server=x;Password=swordfish99;User=me", "swordfish99"),
    "camel case": ("accessToken=sword1fish99", "sword1fish99"),
    "authorization": ("> Authorization: Custom swordfish 99", "swordfish"),
    "cookie": ("> Cookie: a=b; sid=swordfish99", "swordfish99"),
    "set-cookie": ("< Set-Cookie: sid=swordfish99; Path=/", "swordfish99"),
    "address": ("cannot connect to postgresql://me:sword/fish99@db", "fish99"),
    "address, #": ("cannot connect to http://me:sword#fish99@db", "fish99"),
    "address, user alone": ("redis://sword/fish99@db is down", "fish99"),
    "address, a blank": ("cannot connect to postgresql://me:sword fish99@db", "fish99"),
    "address, a quote": ('cannot connect to postgresql://me:sword"fish99@db', "fish99"),
    "two addresses": ("http://a:sword1@x,http://b:sword2@y", "sword"),
    "private key": (f"read {PEM}", "MIIEowIBAAKCAQEA"),
    "half a private key": (PEM[:90], "MIIEowIBAAKCAQEA"),
}
"""Secrets that no configuration states: a line, and what of it must not be shown."""

READABLE = (
    '[{"id":"key","password":true},{"type":"promptString","password":null}]',
    "No module named mcp_server_time",
    "ModuleNotFoundError: No module named 'numpy'",
    "listen tcp 127.0.0.1:8080: bind: address already in use",
    "Error: listen EADDRINUSE: address already in use :::3000",
    "ENOENT: no such file or directory, open '/home/ana/notes/config.json'",
    "permission denied: /run/secrets/db_password",
    "open /etc/ssl/private_key: no such file or directory",
    "bash: line 1: some-command: command not found",
    "npm ERR! 404 Not Found - GET https://registry.example.org/@scope%2fpkg - Not found",
    "GET http://127.0.0.1:8080/@scope/pkg returned 404",
    "mail to ana@example.org was refused",
    "postgresql://db:5432 is down; ask ana@example.org",
    "http://127.0.0.1:8080: connection refused for ana@example.org",
    "see docs://topic:intro, which has more about this, or ask ana@example.org",
    '{"url": "ftp://host:name", "mail": "ana@example.org"}',
    "ask http://example.org/a or ana@example.org",
    "redis://[::1]:6379 refuses ana@example.org",
    "KeyError: 'name'",
    "SyntaxError: Unexpected token: } in JSON at position 12",
    "SyntaxError: Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "error: unknown option '--flavour'",
    "missing environment variable GITHUB_TOKEN",
    "password is required; set DB_PASSWORD",
    "token: missing",
    "the key: value pairs are not sorted",
    "max_tokens=4096 is more than the model takes",
    "tokens: 128000",
    "keyboard: us, monkey: 3, author: Ana, passed: 12",
    "HTTP 401 Unauthorized: Bearer authentication is needed",
    "Python 3.11.7 is too old; 3.12 is needed",
    "connection to server at db.internal, port 5432 failed: timeout expired",
    'Traceback (most recent call last): File "/srv/app/main.py", line 12, in <module>',
    "killed by signal 9 after 30s with 512m of memory",
    "fatal: not a git repository (or any of the parent directories): .git",
)
"""Lines that help, and hold nothing secret."""

HARMLESS_ENTRY: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "some-command", "--flavour", "stdio", "--port", "8080", "/home/ana/notes"],
    "env": {"LOG_LEVEL": "debug", "NODE_ENV": "production", "DATA": "/srv/app/main.py", "N": "12"},
}
