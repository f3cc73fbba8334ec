"""What the HTTP door answers, as an OpenAPI document: ``/openapi.json``.

Written by hand beside the routes, since most of what they say is passed on
from elsewhere; the tests hold it against the routes and their answers.
"""

from functools import cache
from typing import Any, TypeAlias

from toolscript.errors import ToolscriptError
from toolscript.settings import MAX_QUERY_CHARS, OPTION
from toolscript.surfaces.http import wire

VERSION = "3.1.1"
PATH = "/openapi.json"

_Json: TypeAlias = dict[str, Any]

_TEXT: _Json = {"type": "string"}
_WHOLE: _Json = {"type": "integer", "minimum": 0}
_SHARE: _Json = {"type": "number", "minimum": 0, "maximum": 1}
_TRUTH: _Json = {"type": "boolean"}
_ANY_OBJECT: _Json = {"type": "object"}
_ANY_BODY: _Json = {"content": {"application/json": {"schema": _ANY_OBJECT}}}
_TEXTS: _Json = {"type": "array", "items": _TEXT}


@cache
def describe(version: str) -> _Json:
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
            "schemas": _schemas(),
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


def _paths() -> _Json:
    return {
        "/search": _get(
            "search",
            "Find the tools that do what a sentence says",
            _json("SearchResult"),
            [
                *_asked("What the tool should do."),
                _query("server", "Only this server's tools; may be repeated.", _TEXTS),
                _query("why", "A tool's id or name: say where it ended up.", _TEXT),
                _query("skills", "Rank skills among the tools.", _TRUTH),
                _query("needed", "Also rank what the best tools need first.", _TRUTH),
            ],
        ),
        "/search/stats": _get("stats", "What is indexed, and by what", _json("Stats")),
        "/health": _get("health", "Whether everything is ready", _json("Health")),
        "/servers": _get("listServers", "Every configured server", _json("Servers")),
        "/tools": _get(
            "listTools",
            "Every tool, with its schemas",
            _json("Tools"),
            [_query("server", "Only this server's.", _TEXT)],
        ),
        "/tools/{tool}": _call(),
        "/skills": _get("listSkills", "Every skill", _json("Skills")),
        "/skills/search": _get(
            "searchSkills",
            "Find the skills that say how something is done",
            _json("SkillResult"),
            _asked("What is to be done."),
        ),
        "/skills/read": _get(
            "readSkill",
            "The whole text of a skill, or of a file of its folder",
            _json("Page"),
            [
                _query("name", "The skill's name or id.", _TEXT, required=True),
                _query("file", "A path below the skill's own folder.", _TEXT),
            ],
        ),
        "/skills/update": _post(
            "updateSkills", "Look at every folder of skills now", _json("Skills")
        ),
        "/graph": _get(
            "graph",
            "What is used together: how much is known, and the strongest edges",
            {**_json("Graph"), "image/svg+xml": {"schema": _TEXT}},
            [
                _query("limit", "At most this many edges.", {"type": "integer", "maximum": 1000}),
                _query("format", "As JSON or a picture.", {"enum": ["json", "dot", "svg"]}),
            ],
        ),
        "/graph/related": _get(
            "related",
            "What goes with one tool",
            _json("Related"),
            [_query("tool", "Its id.", _TEXT, required=True)],
        ),
        "/graph/import": _post(
            "importGraph", "Learn from templates and logs", _json("Taken"), _ANY_BODY
        ),
        "/graph/clear": _post(
            "clearGraph", "Forget everything learned", _json("Forgotten"), _ANY_BODY
        ),
        "/runtime/tools.ts": _get(
            "typescriptClient", "A TypeScript module", _module("application/typescript"), _filters()
        ),
        "/runtime/tools.py": _get(
            "pythonClient", "A Python module", _module("text/x-python"), _filters()
        ),
        "/metrics": _get("metrics", "Figures for Prometheus", {"text/plain": {"schema": _TEXT}}),
        "/message": _message(),
        PATH: _get("describe", "This document", {"application/json": {"schema": _ANY_OBJECT}}),
    }


def _call() -> _Json:
    called = _post(
        "callTool",
        "Call a tool; one that fails says so in `isError`, with status 200",
        _json("CallResult"),
        {"description": "The tool's arguments.", **_ANY_BODY},
    )
    called["post"]["parameters"] = [
        {
            "name": "tool",
            "in": "path",
            "required": True,
            "description": "The tool's id, `server__tool`.",
            "schema": _TEXT,
        }
    ]
    return called


def _message() -> _Json:
    sent = _post(
        "message",
        "One JSON-RPC request of MCP, without a session",
        _json("JsonRpcAnswer"),
        {"required": True, "content": _json("JsonRpcRequest")},
    )
    nothing = {"description": "A notification: there is nothing to say."}
    sent["post"]["responses"]["202"] = nothing
    return sent


def _get(name: str, summary: str, content: _Json, parameters: list[_Json] | None = None) -> _Json:
    more = {"parameters": parameters} if parameters else {}
    return {"get": _operation(name, summary, content) | more}


def _post(name: str, summary: str, content: _Json, body: _Json | None = None) -> _Json:
    more = {"requestBody": body} if body else {}
    return {"post": _operation(name, summary, content) | more}


def _operation(name: str, summary: str, content: _Json) -> _Json:
    return {"operationId": name, "summary": summary, "responses": _responses(content)}


def _responses(content: _Json) -> _Json:
    return {
        "200": {"description": "The answer.", "content": content},
        "default": {"description": "Why there is none.", "content": _json("Error")},
    }


def _json(schema: str) -> _Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _module(media: str) -> _Json:
    return {media: {"schema": _TEXT}, **_json("Module")}


def _query(name: str, description: str, schema: _Json, *, required: bool = False) -> _Json:
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return parameter | ({"required": True} if required else {})


def _asked(meaning: str) -> list[_Json]:
    """What tools and skills are searched with alike."""
    return [
        _query("q", meaning, _within(1, MAX_QUERY_CHARS), required=True),
        _query("limit", "At most this many results.", _range("limit")),
        _query("threshold", "Least confidence.", _range("threshold")),
        _query("explain", "Say how each confidence came about.", _TRUTH),
    ]


def _filters() -> list[_Json]:
    return [
        _query("filter", "Servers' names and tools' ids, with commas between.", _TEXTS),
        _query("compact", "Without repeated code, descriptions shortened.", _TRUTH),
        _query("json", "As JSON, with a call of the first tool asked for.", _TRUTH),
    ]


def _range(name: str) -> _Json:
    option = OPTION[name]
    kind = "integer" if option.kind is int else "number"
    return {"type": kind, "minimum": option.low, "maximum": option.high}


def _within(low: int, high: int) -> _Json:
    return {"type": "string", "minLength": low, "maxLength": high}


def _schemas() -> _Json:
    hit = _object(
        toolId=_TEXT,
        serverName=_TEXT,
        toolName=_TEXT,
        confidence=_SHARE,
        reason=_TEXT,
        description=_TEXT,
        signals={"type": "object", "additionalProperties": _SHARE},
        explanation=_optional(_ref("Explanation")),
        kind=_optional({"const": "tool"}),
        related=_optional(_relations()),
    )
    either: _Json = {"anyOf": [_ref("Hit"), _ref("SkillHit")]}
    return {
        **_of_skills(),
        "SearchResult": _object(
            query=_TEXT,
            results=_list(either),
            totalResults=_WHOLE,
            threshold=_SHARE,
            limit=_WHOLE,
            below=_or_null(either),
            degraded=_TEXTS,
            why=_optional(_ref("Whereabouts")),
        ),
        "Hit": hit,
        "Graph": _object(
            stats=_or_null(_ANY_OBJECT),
            edges=_list(
                _object(
                    source=_TEXT,
                    target=_TEXT,
                    kinds=_list({"enum": ["observed", "template", "dependency"]}),
                    weight={"type": "number", "minimum": 0},
                    times=_WHOLE,
                )
            ),
        ),
        "Related": _object(toolId=_TEXT, **_relations()["properties"]),
        "Taken": _object(calls=_WHOLE, edges={"type": "integer"}, total=_WHOLE),
        "Forgotten": _object(edges=_WHOLE, calls=_WHOLE),
        "Explanation": _object(
            fused=_SHARE,
            shares=_list(_object(signal=_TEXT, score=_SHARE, weight=_SHARE, evidence=_TEXTS)),
            steps=_list(_object(name=_TEXT, score=_SHARE, evidence=_TEXT)),
        ),
        "Whereabouts": _object(
            toolId=_TEXT, verdict=_TEXT, rank=_or_null(_WHOLE), hit=_or_null(_ref("Hit"))
        ),
        "Stats": _object(
            toolsIndexed=_WHOLE,
            toolsWaiting=_optional(_WHOLE),
            embeddingsCached=_optional(_WHOLE),
            model=_or_null(_TEXT),
            modelLoaded=_TRUTH,
            device=_or_null(_TEXT),
            signals=_TEXTS,
            degraded=_or_null(_TEXT),
            documentsEmbedded=_optional(_WHOLE),
            documentsFromCache=_optional(_WHOLE),
            cacheHitRate=_optional(_or_null(_SHARE)),
            queryCacheHitRate=_optional(_or_null(_SHARE)),
        ),
        "Health": _object(
            status={"enum": ["ready", "starting"]},
            version=_optional(_TEXT),
            pid=_optional(_WHOLE),
            tools=_optional(_WHOLE),
            toolsWaiting=_optional(_WHOLE),
            passagesWaiting=_optional(_WHOLE),
            waitingFor=_optional(_TEXTS),
            download=_optional(_or_null(_object(model=_TEXT, doneBytes=_WHOLE, totalBytes=_WHOLE))),
            configuration=_optional(_TEXT),
            configurationProblem=_optional(_TEXT),
        ),
        "Servers": _object(servers=_list(_ref("Server"))),
        "Server": _object(
            name=_TEXT,
            state={"enum": ["connecting", "ready", "failed", "disabled", "invalid"]},
            transport=_TEXT,
            tools=_WHOLE,
            error=_TEXT,
            since=_TEXT,
            version=_TEXT,
            rejected=_TEXTS,
            snapshot=_TRUTH,
            retry=_TEXT,
        ),
        "Tools": _object(tools=_list(_ref("Tool")), totalTools=_WHOLE),
        "Tool": _object(
            toolId=_TEXT,
            serverName=_TEXT,
            toolName=_TEXT,
            title=_TEXT,
            description=_TEXT,
            inputSchema={},
            outputSchema={},
            annotations={},
        ),
        "CallResult": {
            "type": "object",
            "description": "The server's result, as MCP has it.",
            "properties": {
                "content": _list(_ANY_OBJECT),
                "structuredContent": {},
                "isError": _TRUTH,
                "_meta": _ANY_OBJECT,
            },
            "required": ["content"],
        },
        "Module": _object(module=_TEXT, usage=_TEXT),
        "JsonRpcRequest": _object(
            jsonrpc=_optional({"const": "2.0"}),
            id=_optional({"type": ["string", "number", "null"]}),
            method=_TEXT,
            params=_optional(_ANY_OBJECT),
        ),
        "JsonRpcAnswer": _object(
            jsonrpc={"const": "2.0"},
            id={"type": ["string", "number", "null"]},
            result=_optional({}),
            error=_optional(_object(code={"type": "integer"}, message=_TEXT, data=_optional({}))),
        ),
        "Error": _object(error=_TEXT, type={"type": "string", "examples": _error_types()}),
    }


def _of_skills() -> _Json:
    return {
        "SkillResult": _object(
            query=_TEXT,
            results=_list(_ref("SkillHit")),
            totalResults=_WHOLE,
            threshold=_SHARE,
            limit=_WHOLE,
            below=_or_null(_ref("SkillHit")),
            degraded=_TEXTS,
        ),
        "SkillHit": _object(
            skillId=_TEXT,
            name=_TEXT,
            confidence=_SHARE,
            reason=_TEXT,
            passage=_object(heading=_TEXT, text=_TEXT),
            signals={"type": "object", "additionalProperties": _SHARE},
            explanation=_optional(_ref("Explanation")),
            kind=_optional({"const": "skill"}),
        ),
        "Skills": _object(
            skills=_list(_ref("Skill")),
            totalSkills=_WHOLE,
            folders=_TEXTS,
            problems=_TEXTS,
            ready=_TRUTH,
            stats=_optional({"type": "object", "additionalProperties": _WHOLE}),
        ),
        "Skill": _object(
            skillId=_TEXT, name=_TEXT, description=_TEXT, passages=_WHOLE, file=_optional(_TEXT)
        ),
        "Page": _object(skillId=_TEXT, name=_TEXT, file=_TEXT, text=_TEXT),
    }


def _relations() -> _Json:
    each = _list(_object(tool=_TEXT, score=_SHARE, evidence=_TEXT))
    return _object(before=each, after=each, needs=each)


def _error_types() -> list[str]:
    return sorted(kind.__name__ for kind in wire.STATUS if kind is not ToolscriptError)


_OPTIONAL = "x-optional"


def _object(**properties: _Json) -> _Json:
    """An object that has these, but for those that are marked as optional."""
    required = [name for name, schema in properties.items() if not schema.get(_OPTIONAL)]
    shown = {
        name: {key: value for key, value in schema.items() if key != _OPTIONAL}
        for name, schema in properties.items()
    }
    return {"type": "object", "properties": shown, "required": required}


def _optional(schema: _Json) -> _Json:
    return {**schema, _OPTIONAL: True}


def _or_null(schema: _Json) -> _Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: _Json) -> _Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}
