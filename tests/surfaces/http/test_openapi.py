"""The OpenAPI document: valid, of the routes that there are, and true of their answers."""

import json
import re
from collections.abc import Generator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.skills.sample import put
from tests.support import READ_FILE, SEND_MAIL, Cli, Scripted, fetch, post

from toolscript.surfaces.http.openapi import PATH, describe
from toolscript.surfaces.http.routes import every_endpoint
from toolscript.text.wire_constants import ANSWER_FIELDS
from toolscript.version import __version__

DOCUMENT = describe(__version__, every_endpoint())
ID = "files__read_file"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    home = tmp_path_factory.mktemp("described")
    cli, scripted = Cli(home), Scripted(home)
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    put(home / ".agents" / "skills")
    url = cli.start_gateway()
    assert post(url, "/skills/update", {})[0] == 200
    with cli:
        yield cli


@pytest.fixture
def url(gateway: Cli) -> str:
    return gateway.record()["url"]


def check(answer: Any, path: str, method: str = "get", status: str = "200") -> None:
    """Raises `ValidationError` where an answer is not what the document says."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    schema = responses[status]["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(answer)  # pyright: ignore[reportUnknownMemberType]


def test_the_document_is_valid_and_served_as_it_is(url: str) -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert fetch(url, PATH) == (200, DOCUMENT)


@pytest.mark.requirement("http:others")
def test_every_route_is_described_and_nothing_else(url: str) -> None:
    """http:others: the protocol itself is no interface of this kind."""
    _, refused = fetch(url, "/nothing")
    told = set(re.findall(r"/\S+[^,\s]", refused["error"].partition("there are")[2]))
    described = {*DOCUMENT["paths"]} - {"/message"}
    assert {path.replace(":path", "") for path in told} == described
    for path, methods in DOCUMENT["paths"].items():
        for method in methods:
            status, _ = fetch(url, path.replace("{tool}", ID), method=method.upper())
            assert status not in {404, 405}, path


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/search", {"q": "read a file", "explain": "true", "why": "send_mail"}),
        ("/search", {"q": "zzzz"}),
        ("/search", {"q": "read the loaf", "skills": "true", "threshold": 0}),
        ("/skills", {}),
        ("/skills/search", {"q": "bake a loaf", "explain": "true"}),
        ("/skills/read", {"name": "pdf-forms", "file": "references/fields.md"}),
        ("/search/stats", {}),
        ("/health", {}),
        ("/servers", {}),
        ("/tools", {}),
        ("/graph", {"limit": 5}),
        ("/graph/related", {"tool": ID}),
        ("/runtime/tools.ts", {"json": 1}),
        ("/runtime/tools.py", {"json": 1}),
    ],
)
def test_answers_are_as_described(url: str, path: str, parameters: dict[str, object]) -> None:
    status, answer = fetch(url, path, parameters)
    assert status == 200
    check(answer, path)
    given = {each["name"] for each in DOCUMENT["paths"][path]["get"].get("parameters", ())}
    assert set(parameters) <= given


def test_calls_messages_and_errors_are_as_described(gateway: Cli, url: str) -> None:
    key = gateway.record()["key"]

    def owner_posts(path: str, value: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        status, answer = fetch(
            url, path, method="POST", headers=headers, body=json.dumps(value).encode()
        )
        assert status == 200, answer
        return answer

    status, answer = post(url, f"/tools/{ID}", {"path": "x"})
    assert status == 200
    check(answer, "/tools/{tool}", "post")
    for method in ("ping", "nonsense"):
        _, answer = post(url, "/message", {"method": method})
        check(answer, "/message", "post")
    workflows = {"workflows": [{"steps": [ID, "mail__send_mail"]}]}
    check(owner_posts("/graph/import", workflows), "/graph/import", "post")
    check(fetch(url, "/graph/related", {"tool": ID})[1], "/graph/related")
    check(fetch(url, "/graph")[1], "/graph")
    check(fetch(url, "/search", {"q": "read_file"})[1], "/search")
    check(owner_posts("/graph/clear", {}), "/graph/clear", "post")
    status, answer = fetch(url, "/search")
    assert status == 400
    check(answer, "/search", status="default")


def test_the_fields_by_which_a_command_knows_an_answer_are_described() -> None:
    for path, fields in ANSWER_FIELDS.items():
        answers = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
        name = answers["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert fields.keys() <= set(DOCUMENT["components"]["schemas"][name]["properties"]), path
