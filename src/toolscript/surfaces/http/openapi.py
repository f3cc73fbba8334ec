"""What the HTTP door answers, as an OpenAPI document: ``/openapi.json``.

Written by hand beside the routes, since most of what they say is passed on
from elsewhere; the tests hold it against the routes and their answers.
"""

from functools import cache

from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.surfaces.http.answers import SCHEMA_REF, Json, schemas

VERSION = "3.1.1"
PATH = "/openapi.json"
TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "array", "items": TEXT}
TRUTH: Json = {"type": "boolean"}
ANY_OBJECT: Json = {"type": "object"}

_ANY_BODY: Json = {"content": {"application/json": {"schema": ANY_OBJECT}}}


@cache
def describe(version: str) -> Json:
    """The document, for this version of the package."""
    return {
        "openapi": VERSION,
        "info": {
            "title": "toolscript",
            "version": version,
            "summary": "Find the right MCP tool at once, and call it.",
        },
        "paths": _paths(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Asked for once `toolscript token create` has made one.",
                }
            },
        },
        "security": [{}, {"token": []}],
    }


def _paths() -> Json:
    return {
        "/search": _get(
            "search",
            "Find the tools that do what a sentence says",
            _json("SearchAnswer"),
            [
                *_asked("What the tool should do."),
                _query("server", "Only this server's tools; may be repeated.", TEXTS),
                _query("why", "A tool's id or name: say where it ended up.", TEXT),
                _query("skills", "Rank skills among the tools.", TRUTH),
                _query("needed", "Also rank what the best tools need first.", TRUTH),
            ],
        ),
        "/search/stats": _get("stats", "What is indexed, and by what", _json("StatsAnswer")),
        "/health": _get("health", "Whether everything is ready", _json("HealthAnswer")),
        "/servers": _get("listServers", "Every configured server", _json("ServersAnswer")),
        "/tools": _get(
            "listTools",
            "Every tool, with its schemas",
            _json("ToolsAnswer"),
            [_query("server", "Only this server's.", TEXT)],
        ),
        "/tools/{tool}": _call(),
        "/skills": _get("listSkills", "Every skill", _json("SkillsAnswer")),
        "/skills/search": _get(
            "searchSkills",
            "Find the skills that say how something is done",
            _json("SearchAnswer"),
            _asked("What is to be done."),
        ),
        "/skills/read": _get(
            "readSkill",
            "The whole text of a skill, or of a file of its folder",
            _json("SkillFile"),
            [
                _query("name", "The skill's name or id.", TEXT, required=True),
                _query("file", "A path below the skill's own folder.", TEXT),
            ],
        ),
        "/skills/update": _post(
            "updateSkills", "Look at every folder of skills now", _json("SkillsAnswer")
        ),
        "/graph": _get(
            "graph",
            "What is used together: how much is known, and the strongest edges",
            {**_json("GraphAnswer"), "image/svg+xml": {"schema": TEXT}},
            [
                _query("limit", "At most this many edges.", {"type": "integer", "maximum": 1000}),
                _query("format", "As JSON or a picture.", {"enum": ["json", "dot", "svg"]}),
            ],
        ),
        "/graph/related": _get(
            "related",
            "What goes with one tool",
            _json("RelatedAnswer"),
            [_query("tool", "Its id.", TEXT, required=True)],
        ),
        "/graph/import": _post(
            "importGraph", "Learn from templates and logs", _json("GraphImport"), _ANY_BODY
        ),
        "/graph/clear": _post(
            "clearGraph", "Forget everything learned", _json("GraphCleared"), _ANY_BODY
        ),
        "/runtime/tools.ts": _get(
            "typescriptClient", "A TypeScript module", _module("application/typescript"), _filters()
        ),
        "/runtime/tools.py": _get(
            "pythonClient", "A Python module", _module("text/x-python"), _filters()
        ),
        "/metrics": _get("metrics", "Figures for Prometheus", {"text/plain": {"schema": TEXT}}),
        "/message": _message(),
        PATH: _get("describe", "This document", {"application/json": {"schema": ANY_OBJECT}}),
    }


def _call() -> Json:
    called = _post(
        "callTool",
        "Call a tool; one that fails says so in `isError`, with status 200",
        _json("CallAnswer"),
        {"description": "The tool's arguments.", **_ANY_BODY},
    )
    called["post"]["parameters"] = [
        {
            "name": "tool",
            "in": "path",
            "required": True,
            "description": "The tool's id, `server__tool`.",
            "schema": TEXT,
        }
    ]
    return called


def _message() -> Json:
    sent = _post(
        "message",
        "One JSON-RPC request of MCP, without a session",
        _json("JsonRpcAnswer"),
        {"required": True, "content": _json("JsonRpcRequest")},
    )
    nothing = {"description": "A notification: there is nothing to say."}
    sent["post"]["responses"]["202"] = nothing
    return sent


def _get(name: str, summary: str, content: Json, parameters: list[Json] | None = None) -> Json:
    more = {"parameters": parameters} if parameters else {}
    return {"get": _operation(name, summary, content) | more}


def _post(name: str, summary: str, content: Json, body: Json | None = None) -> Json:
    more = {"requestBody": body} if body else {}
    return {"post": _operation(name, summary, content) | more}


def _operation(name: str, summary: str, content: Json) -> Json:
    return {"operationId": name, "summary": summary, "responses": _responses(content)}


def _responses(content: Json) -> Json:
    return {
        "200": {"description": "The answer.", "content": content},
        "default": {"description": "Why there is none.", "content": _json("ErrorAnswer")},
    }


def _json(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": SCHEMA_REF.format(name=schema)}}}


def _module(media: str) -> Json:
    return {media: {"schema": TEXT}, **_json("ModuleAnswer")}


def _query(name: str, description: str, schema: Json, *, required: bool = False) -> Json:
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return parameter | ({"required": True} if required else {})


def _asked(meaning: str) -> list[Json]:
    """What tools and skills are searched with alike."""
    return [
        _query("q", meaning, _within(1, MAX_QUERY_CHARS), required=True),
        _query("limit", "At most this many results.", _range("limit")),
        _query("threshold", "Least confidence.", _range("threshold")),
        _query("explain", "Say how each confidence came about.", TRUTH),
    ]


def _filters() -> list[Json]:
    return [
        _query("filter", "Servers' names and tools' ids, with commas between.", TEXTS),
        _query("compact", "Without repeated code, descriptions shortened.", TRUTH),
        _query("json", "As JSON, with a call of the first tool asked for.", TRUTH),
    ]


def _range(name: str) -> Json:
    option = OPTION[name]
    kind = "integer" if option.kind is int else "number"
    return {"type": kind, "minimum": option.low, "maximum": option.high}


def _within(low: int, high: int) -> Json:
    return {"type": "string", "minLength": low, "maxLength": high}
