"""The JSON objects that the HTTP door answers with, as JSON schemas."""

from typing import Any, TypeAlias

from toolscript.errors import ToolscriptError
from toolscript.surfaces.server import wire as server_wire

Json: TypeAlias = dict[str, Any]

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer", "minimum": 0}
SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}
TRUTH: Json = {"type": "boolean"}
ANY_OBJECT: Json = {"type": "object"}
TEXTS: Json = {"type": "array", "items": TEXT}
_NAMES: dict[str, Json] = {"toolId": TEXT, "serverName": TEXT, "toolName": TEXT}


def schemas() -> Json:
    """Each object by the name under which the document refers to it."""
    hit = _object(
        **_NAMES,
        warning=_optional(TEXT),
        confidence=SHARE,
        reason=TEXT,
        description=TEXT,
        signals={"type": "object", "additionalProperties": SHARE},
        explanation=_optional(_ref("Explanation")),
        kind=_optional({"const": "tool"}),
        related=_optional(_relations()),
    )
    either: Json = {"anyOf": [_ref("Hit"), _ref("SkillHit")]}
    return {
        **_of_skills(),
        "SearchResult": _object(
            query=TEXT,
            results=_list(either),
            totalResults=WHOLE,
            threshold=SHARE,
            limit=WHOLE,
            below=_or_null(either),
            degraded=TEXTS,
            why=_optional(_ref("MissExplanation")),
        ),
        "Hit": hit,
        "Graph": _object(
            stats=_or_null(ANY_OBJECT),
            edges=_list(
                _object(
                    source=TEXT,
                    target=TEXT,
                    kinds=_list({"enum": ["observed", "template", "dependency"]}),
                    weight={"type": "number", "minimum": 0},
                    times=WHOLE,
                )
            ),
        ),
        "Related": _object(toolId=TEXT, **_relations()["properties"]),
        "Taken": _object(calls=WHOLE, edges={"type": "integer"}, total=WHOLE),
        "Forgotten": _object(edges=WHOLE, calls=WHOLE),
        "Explanation": _object(
            fused=SHARE,
            shares=_list(_object(signal=TEXT, score=SHARE, weight=SHARE, evidence=TEXTS)),
            steps=_list(_object(name=TEXT, score=SHARE, evidence=TEXT)),
        ),
        "MissExplanation": _object(
            toolId=TEXT, verdict=TEXT, rank=_or_null(WHOLE), hit=_or_null(_ref("Hit"))
        ),
        "Stats": _object(
            toolsIndexed=WHOLE,
            toolsWaiting=_optional(WHOLE),
            embeddingsCached=_optional(WHOLE),
            model=_or_null(TEXT),
            modelLoaded=TRUTH,
            device=_or_null(TEXT),
            signals=TEXTS,
            degraded=_or_null(TEXT),
            documentsEmbedded=_optional(WHOLE),
            documentsFromCache=_optional(WHOLE),
            cacheHitRate=_optional(_or_null(SHARE)),
            queryCacheHitRate=_optional(_or_null(SHARE)),
        ),
        "Health": _object(
            status={"enum": ["ready", "starting", "failed"]},
            version=_optional(TEXT),
            pid=_optional(WHOLE),
            tools=_optional(WHOLE),
            toolsWaiting=_optional(WHOLE),
            passagesWaiting=_optional(WHOLE),
            waitingFor=_optional(TEXTS),
            download=_optional(_or_null(_object(model=TEXT, doneBytes=WHOLE, totalBytes=WHOLE))),
            configuration=_optional(TEXT),
            configurationProblem=_optional(TEXT),
            tasks=_optional({"type": "object", "additionalProperties": TEXT}),
            error=_optional(TEXT),
            type=_optional(TEXT),
        ),
        "Servers": _object(servers=_list(_ref("Server"))),
        "Server": _object(
            name=TEXT,
            state={"enum": ["connecting", "ready", "failed", "disabled", "invalid"]},
            transport=TEXT,
            tools=WHOLE,
            error=TEXT,
            since=TEXT,
            version=TEXT,
            rejected=TEXTS,
            snapshot=TRUTH,
            retry=TEXT,
        ),
        "Tools": _object(tools=_list(_ref("Tool")), totalTools=WHOLE),
        "Tool": _object(
            **_NAMES,
            warning=_optional(TEXT),
            title=TEXT,
            description=TEXT,
            inputSchema={},
            outputSchema={},
            annotations={},
        ),
        "CallResult": {
            "type": "object",
            "description": "The server's result, as MCP has it.",
            "properties": {
                "content": _list(ANY_OBJECT),
                "structuredContent": {},
                "isError": TRUTH,
                "_meta": ANY_OBJECT,
            },
            "required": ["content"],
        },
        "Module": _object(module=TEXT, usage=TEXT, tools=TEXTS),
        "JsonRpcRequest": _object(
            jsonrpc=_optional({"const": "2.0"}),
            id=_optional({"type": ["string", "number", "null"]}),
            method=TEXT,
            params=_optional(ANY_OBJECT),
        ),
        "JsonRpcAnswer": _object(
            jsonrpc={"const": "2.0"},
            id={"type": ["string", "number", "null"]},
            result=_optional({}),
            error=_optional(_object(code={"type": "integer"}, message=TEXT, data=_optional({}))),
        ),
        "Error": _object(error=TEXT, type={"type": "string", "examples": _error_types()}),
    }


def _of_skills() -> Json:
    return {
        "SkillResult": _object(
            query=TEXT,
            results=_list(_ref("SkillHit")),
            totalResults=WHOLE,
            threshold=SHARE,
            limit=WHOLE,
            below=_or_null(_ref("SkillHit")),
            degraded=TEXTS,
        ),
        "SkillHit": _object(
            skillId=TEXT,
            name=TEXT,
            confidence=SHARE,
            reason=TEXT,
            passage=_object(heading=TEXT, text=TEXT),
            signals={"type": "object", "additionalProperties": SHARE},
            explanation=_optional(_ref("Explanation")),
            kind=_optional({"const": "skill"}),
        ),
        "Skills": _object(
            skills=_list(_ref("Skill")),
            totalSkills=WHOLE,
            folders=TEXTS,
            problems=TEXTS,
            ready=TRUTH,
            stats=_optional({"type": "object", "additionalProperties": WHOLE}),
        ),
        "Skill": _object(
            skillId=TEXT, name=TEXT, description=TEXT, passages=WHOLE, file=_optional(TEXT)
        ),
        "Page": _object(skillId=TEXT, name=TEXT, file=TEXT, text=TEXT),
    }


def _relations() -> Json:
    each = _list(_object(tool=TEXT, score=SHARE, evidence=TEXT))
    return _object(before=each, after=each, needs=each)


def _error_types() -> list[str]:
    return sorted(kind.__name__ for kind in server_wire.STATUS if kind is not ToolscriptError)


_OPTIONAL = "x-optional"


def _object(**properties: Json) -> Json:
    """An object that has these, but for those that are marked as optional."""
    required = [name for name, schema in properties.items() if not schema.get(_OPTIONAL)]
    shown = {
        name: {key: value for key, value in schema.items() if key != _OPTIONAL}
        for name, schema in properties.items()
    }
    return {"type": "object", "properties": shown, "required": required}


def _optional(schema: Json) -> Json:
    return {**schema, _OPTIONAL: True}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
