"""An MCP server over stdio with the tools, prompts and resources that the conformance suite calls.

Its one argument is a JSON object; with ``"discover": "answer"`` it speaks the newest protocol.
"""

import itertools
import json
import queue
import sys
from pathlib import Path
from typing import Any

# The program starts without site-packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from toolscript.testing.server_program import JsonObject, ScriptedServer

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJ"
    "RU5ErkJggg=="
)
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
_IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def resource(uri: str, mime: str, words: str) -> JsonObject:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def form(**fields: JsonObject) -> JsonObject:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Please say", "requestedSchema": schema},
    }


_STRING, _FLAG = {"type": "string"}, {"type": "boolean"}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
_SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": text("Greet")}], "maxTokens": 50},
}
_ROOTS: JsonObject = {"method": "roots/list", "params": {}}
RESULTS: dict[str, list[JsonObject]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [_IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [resource("test://embedded-resource", "text/plain", "Embedded.")],
    "test_multiple_content_types": [
        text("Several kinds:"),
        _IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test": "data"}'),
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "test_tool_with_progress": [text("done")],
    "test_logging_tool": [text("nothing is logged")],
}
QUESTIONS: dict[str, JsonObject] = {
    "test_elicitation": {"username": _STRING, "email": _STRING},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _OPTIONS, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}
"""The fields of the forms by which tools of the older protocols ask."""
ROUNDS: dict[str, list[JsonObject]] = {
    "test_input_required_result_elicitation": [{"user_name": form(name=_STRING)}],
    "test_input_required_result_sampling": [{"capital_question": _SAMPLE}],
    "test_input_required_result_list_roots": [{"client_roots": _ROOTS}],
    "test_input_required_result_request_state": [{"confirm": form(ok=_FLAG)}],
    "test_input_required_result_multiple_inputs": [
        {"user_name": form(name=_STRING), "greeting": _SAMPLE, "client_roots": _ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": form(name=_STRING)},
        {"step2": form(color=_STRING)},
    ],
    "test_input_required_result_tampered_state": [{"confirm": form(ok=_FLAG)}],
    "test_streaming_elicitation": [{"confirm": form(ok=_FLAG)}],
}
"""The questions of each round of a tool of the newest protocol, by their keys."""
MODERN = ("test_missing_capability", "test_input_required_result_capabilities")
PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
RESOURCES: dict[str, JsonObject] = {
    "test://static-text": {"mimeType": "text/plain", "text": "A static text."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://template/123/data": {"mimeType": "application/json", "text": '{"id": "123"}'},
}
NAMES = {*RESULTS, *QUESTIONS, *ROUNDS, *MODERN, *PROMPTS, *RESOURCES}
SCHEMA: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": _STRING, "city": _STRING},
        }
    },
    "properties": {
        "name": _STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": _STRING,
        "email": _STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class ConformanceServer(ScriptedServer):
    def __init__(self, script: JsonObject) -> None:
        super().__init__(script)
        self.is_modern = script.get("discover") == "answer"
        self.ids = itertools.count()
        self.answers: dict[str, queue.Queue[JsonObject]] = {}

    def receive(self, message: JsonObject) -> None:
        if "method" not in message and message.get("id") in self.answers:
            self.answers[message["id"]].put(message)
        else:
            super().receive(message)

    def finish(self, identifier: Any, result: JsonObject) -> None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        self.send(id=identifier, result={**modern, **result} if self.is_modern else result)

    def refuse(self, identifier: Any, message: str) -> None:
        self.send(id=identifier, error={"code": -32602, "message": message})

    def answer(self, identifier: Any, method: str, params: JsonObject) -> None:
        lists = self.lists()
        if method == "server/discover" and self.is_modern:
            capabilities: JsonObject = {"tools": {}, "prompts": {}, "resources": {}}
            found: JsonObject = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            self.finish(identifier, found)
        elif method in lists:
            self.finish(identifier, lists[method])
        elif method == "prompts/get" and params["name"] in ROUNDS | PROMPTS:
            self.get_prompt(identifier, params["name"], params)
        elif method == "resources/read" and params["uri"] in RESOURCES:
            contents = [{"uri": params["uri"], **RESOURCES[params["uri"]]}]
            self.finish(identifier, {"contents": contents})
        else:
            super().answer(identifier, method, params)

    def initialized(self, params: JsonObject) -> JsonObject:
        result = super().initialized(params)
        result["capabilities"] |= {"prompts": {}, "resources": {}}
        return result

    def lists(self) -> JsonObject:
        names = [*RESULTS, *((*ROUNDS, *MODERN) if self.is_modern else QUESTIONS)]
        tools: list[JsonObject] = [
            {"name": each, "inputSchema": {"type": "object"}} for each in names
        ]
        tools.append({"name": "json_schema_2020_12_tool", "inputSchema": SCHEMA})
        for each in tools:
            each |= {"description": "For tests", "annotations": {"readOnlyHint": True}}
        prompts = [
            {
                "name": name,
                "description": "For tests",
                "arguments": [{"name": each, "required": True} for each in arguments],
            }
            for name, arguments in PROMPTS.items()
        ]
        static = [uri for uri in RESOURCES if "template" not in uri]
        template = {"uriTemplate": "test://template/{id}/data", "name": "template"}
        return {
            "tools/list": {"tools": tools},
            "prompts/list": {"prompts": prompts},
            "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in static]},
            "resources/templates/list": {"resourceTemplates": [template]},
        }

    def get_prompt(self, identifier: Any, name: str, params: JsonObject) -> None:
        if name == "test_input_required_result_prompt":
            rounds = [{"user_context": form(context=_STRING)}]
            words = self.next_round(identifier, name, rounds, params)
            if words is None:
                return
            contents = [text(words)]
        elif name == "test_prompt_with_image":
            contents = [_IMAGE, text("Look.")]
        elif name == "test_prompt_with_embedded_resource":
            uri = params["arguments"]["resourceUri"]
            contents = [resource(uri, "text/plain", "Embedded."), text("Read.")]
        else:
            contents = [text(" ".join(("A prompt.", *params.get("arguments", {}).values())))]
        messages = [{"role": "user", "content": each} for each in contents]
        self.finish(identifier, {"messages": messages})

    def next_round(
        self, identifier: Any, name: str, rounds: list[JsonObject], params: JsonObject
    ) -> str | None:
        """Asks the next questions; the words of the answer after the last round."""
        states = [f"{name}#{number}" for number in range(len(rounds))]
        state = params.get("requestState", states[0])
        if state not in states:
            self.refuse(identifier, "the state has been changed")
            return None
        given: JsonObject = params.get("inputResponses") or {}
        number = states.index(state)
        number += set(rounds[number]) <= set(given)
        if number == len(rounds):
            return f"state-ok {json.dumps(given)}"
        asked = {"inputRequests": rounds[number], "requestState": states[number]}
        self.finish(identifier, {**asked, "resultType": "input_required"})
        return None

    def reply(self, identifier: Any, params: JsonObject) -> None:
        name = params["name"]
        if name == "test_missing_capability":
            needed: JsonObject = {"requiredCapabilities": {"sampling": {}}}
            error = {"code": -32021, "message": "a capability is missing", "data": needed}
            self.send(id=identifier, error=error)
        elif name == "test_input_required_result_capabilities":
            asked = {"resultType": "input_required", "inputRequests": {"greeting": _SAMPLE}}
            self.finish(identifier, asked)
        elif name in ROUNDS:
            words = self.next_round(identifier, name, ROUNDS[name], params)
            if words is not None:
                self.finish(identifier, {"content": [text(words)]})
        elif name in QUESTIONS:
            question = f"ask-{next(self.ids)}"
            self.answers[question] = queue.Queue()
            self.send(id=question, **form(**QUESTIONS[name]))
            said = self.answers[question].get()
            self.finish(identifier, {"content": [text(f"User response: {json.dumps(said)}")]})
        else:
            content = RESULTS.get(name, [text("ok")])
            self.finish(identifier, {"content": content, "isError": name == "test_error_handling"})


if __name__ == "__main__":
    ConformanceServer({"progress": 3, **json.loads(sys.argv[1])}).serve()
