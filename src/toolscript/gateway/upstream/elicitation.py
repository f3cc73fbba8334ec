"""Adds a server's name to its questions, and recognises those that ask for a secret."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from toolscript.text.display import printable
from toolscript.text.json_values import as_object
from toolscript.text.words import words

_Raw: TypeAlias = dict[str, Any]
METHOD = "elicitation/create"
DECLINED: _Raw = {"action": "decline"}
URL_NEEDED = -32042
"""The code of an error whose data has addresses that the user is to open first."""
_MAX_MESSAGE_CHARS, _MAX_LINE_CHARS, _MAX_FIELDS = 4000, 500, 200
_SECRET = re.compile(
    r"\b(pass ?(word|phrase|code|wd)s?|pass|pwd|pin( code| number)?|secrets?|tokens?|credentials?"
    r"|(api|access|private|secret|security|recovery|encryption|ssh|license) ?keys?"
    r"|(seed|recovery) phrase|otp|one time code|2 ?fa( code)?|mfa( code)?|cvv|cvc|card number"
    r"|social security( number)?|ssn|bearer|cookies?|passwort|kennwort|contrase[nñ]a|senha"
    r"|mot de passe|пароль)\b|密码|密碼|パスワード|비밀번호"
)


def attributed(server: str, question: _Raw, redact: Callable[[str], str]) -> _Raw:
    """Returns the question with its server's name before it.

    Its text, and the titles and descriptions of its fields, hold no control characters, and are on
    one line: a second one could be taken for a question of toolscript's.
    """
    shown = printable(redact(str(question.get("message", ""))), _MAX_MESSAGE_CHARS)
    marked = {**question, "message": f"{server} asks: {shown}"}
    schema = question.get("requestedSchema")
    if isinstance(schema, dict):
        fields = {name: _plain(field, redact) for name, field in _fields(question)}
        marked["requestedSchema"] = {**cast("_Raw", schema), "properties": fields}
    return marked


def _plain(field: Any, redact: Callable[[str], str]) -> Any:
    """Returns a field whose title and description can be shown."""
    if not isinstance(field, dict):
        return field
    texts = {key: cast("_Raw", field).get(key) for key in ("title", "description")}
    shown = {
        k: printable(redact(v), _MAX_LINE_CHARS) for k, v in texts.items() if isinstance(v, str)
    }
    return {**cast("_Raw", field), **shown}


def _fields(question: _Raw) -> list[tuple[str, Any]]:
    schema = as_object(question.get("requestedSchema"))
    return list(as_object(schema.get("properties")).items())


def secret_asked_for(request: _Raw) -> str:
    """Returns the part that asks for a secret: a field's name, "its text", or "" for none."""
    question: _Raw = (request.get("method") == METHOD and request.get("params")) or {}
    fields = _fields(question)
    if len(fields) > _MAX_FIELDS:
        return f"one of {len(fields)} fields"
    free = [(name, field) for name, field in fields if _is_free(field)]
    named = next((name for name, field in free if _names_a_secret(name, field)), "")
    return named or ("its text" if free and _is_secret(str(question.get("message", ""))) else "")


def _is_free(field: Any) -> bool:
    """Returns whether the user types into a field, rather than choosing."""
    if not isinstance(field, dict):
        return True
    field = cast("_Raw", field)
    if "items" in field:
        return _is_free(field["items"])
    choices = field.get("oneOf") or field.get("anyOf")
    listed = isinstance(choices, list) and all(
        "const" in as_object(choice) for choice in cast("list[Any]", choices)
    )
    return not (isinstance(field.get("enum"), list) or listed or field.get("type") == "boolean")


def _names_a_secret(name: str, field: Any) -> bool:
    about = as_object(field)
    texts = (name, about.get("title", ""), about.get("description", ""))
    return about.get("format") == "password" or any(_is_secret(str(text)) for text in texts)


def _is_secret(text: str) -> bool:
    shown = printable(text, 5 * _MAX_MESSAGE_CHARS)
    return any(map(_SECRET.search, (shown.casefold(), " ".join(words(shown)))))
