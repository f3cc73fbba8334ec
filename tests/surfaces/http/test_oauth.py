"""Logging in by OAuth, step by step: a client registers, the owner consents, a token comes."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.support import fetch, until
from tests.surfaces.oauth_flow import CALLBACK, Flow, led, oauth_gateway


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Generator[Flow]:
    with oauth_gateway(tmp_path_factory.mktemp("oauth")) as flow:
        yield flow


@pytest.mark.requirement("http:oauth")
def test_a_refusal_leads_to_the_metadata(flow: Flow) -> None:
    for door in ("/mcp", "/mcp/all", "/mcp/p/reader"):
        answer = flow.stranger.open(door, "POST", "{}", Content_Type="application/json")
        assert answer.status == 401
        place = f"{flow.url}/.well-known/oauth-protected-resource{door}"
        assert answer.headers["www-authenticate"] == (
            f'Bearer resource_metadata="{place}", scope="mcp"'
        )
        resource = fetch(flow.url, place.removeprefix(flow.url))[1]
        assert resource["resource"] == flow.url + door
        assert resource["authorization_servers"] == [flow.url]
    answer = flow.stranger.open("/mcp", "POST", "{}", Authorization="Bearer wrong")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    for path in ("/tools", "/mcp/x/y/z"):
        assert fetch(flow.url, f"/.well-known/oauth-protected-resource{path}")[0] == 404


@pytest.mark.requirement("http:oauth")
def test_the_metadata_names_what_clients_look_for(flow: Flow) -> None:
    status, metadata = fetch(flow.url, "/.well-known/oauth-authorization-server")
    assert status == 200
    assert metadata["issuer"] == flow.url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["authorization_response_iss_parameter_supported"] is True


@pytest.mark.requirement("http:oauth")
def test_the_owner_sees_who_asks(flow: Flow) -> None:
    evil = "Notes <script>alert(1)</script> \u202egoogle"
    status, registered = flow.register(client_name=evil, redirect_uris=["http://localhost/cb"])
    assert status == 201
    page = flow.ask(client_id=registered["client_id"], redirect_uri="http://localhost:99/cb").page
    assert page.one("h1").text == "May Notes <script>alert(1)</script> google use your tools?"
    assert "nobody has checked the name" in page.text
    assert [each.text for each in page.one("main").all("strong")] == ["localhost:99"]
    assert "a program on the machine of this browser" in page.text


@pytest.mark.requirement("http:oauth")
def test_consent_becomes_a_token_that_is_listed_and_revoked(flow: Flow) -> None:
    answer = led(flow.decide(flow.held()))
    assert set(answer) == {"code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("s1", flow.url)
    status, given = flow.exchange(answer["code"])
    assert status == 200, given
    assert (given["token_type"], given["expires_in"]) == ("Bearer", 7 * 86400)
    token = given["access_token"]
    assert flow.opens(token) == 200
    [listed] = [each for each in flow.tokens() if each["name"] == "Notes (app.example)"]
    assert listed["permissions"] == [{"tools": "destructive", "decision": "ask"}]
    assert listed["expires"]
    assert flow.cli("token", "revoke", listed["id"]).returncode == 0
    until(lambda: flow.opens(token) == 401, "the token counts no more")


@pytest.mark.requirement("http:oauth")
def test_the_owner_chooses_a_profile(flow: Flow) -> None:
    token = flow.exchange(flow.code(profile="reader"))[1]["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    tools = fetch(flow.url, "/tools", headers=headers)[1]["tools"]
    assert [each["toolId"] for each in tools] == ["files__read_file"]


@pytest.mark.requirement("http:oauth")
def test_the_address_of_a_profile_limits_the_token(flow: Flow) -> None:
    resource = f"{flow.url}/mcp/p/reader"
    token = flow.exchange(flow.code(resource=resource), resource=resource)[1]["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    tools = fetch(flow.url, "/tools", headers=headers)[1]["tools"]
    assert [each["toolId"] for each in tools] == ["files__read_file"]


@pytest.mark.requirement("http:oauth")
def test_a_refusal_is_told_to_the_client(flow: Flow) -> None:
    before = len(flow.tokens())
    answer = led(flow.decide(flow.held(), answer="deny"))
    assert answer == {"error": "access_denied", "state": "s1", "iss": flow.url}
    assert len(flow.tokens()) == before


@pytest.mark.requirement("http:oauth")
def test_a_code_that_comes_again_takes_the_token_back(flow: Flow) -> None:
    code = flow.code()
    token = flow.exchange(code)[1]["access_token"]
    assert flow.opens(token) == 200
    for _ in range(3):
        assert flow.exchange(code)[1]["error"] == "invalid_grant"
        assert flow.opens(token) == 401


@pytest.mark.requirement("http:oauth")
def test_a_used_code_in_other_hands_takes_the_token_back(flow: Flow) -> None:
    code = flow.code()
    token = flow.exchange(code)[1]["access_token"]
    assert flow.exchange(code, code_verifier="w" * 64)[0] == 400
    assert flow.opens(token) == 401


@pytest.mark.requirement("http:oauth")
def test_a_wrong_verifier_costs_an_unused_code_nothing(flow: Flow) -> None:
    code = flow.code()
    assert flow.exchange(code, code_verifier="w" * 64)[0] == 400
    assert flow.exchange(code)[0] == 200


@pytest.mark.requirement("http:oauth")
def test_any_port_of_the_same_machine_will_do(flow: Flow) -> None:
    uri = "http://127.0.0.1:1/cb"
    other = flow.register(redirect_uris=[uri])[1]["client_id"]
    for port in ("", ":80", ":54321"):
        answer = flow.ask(client_id=other, redirect_uri=f"http://127.0.0.1{port}/cb")
        assert answer.status == 200, answer.body


@pytest.mark.requirement("http:oauth")
def test_a_visit_from_another_site_leads_to_itself(flow: Flow) -> None:
    """The cookie of the page comes with no visit from elsewhere."""
    headers: dict[str, Any] = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}
    answer = flow.stranger.open("/ui/authorize?client_id=a%22b&state=%3Cx%3E", **headers)
    assert answer.status == 200
    assert answer.headers["refresh"] == "0; url=/ui/authorize?client_id=a%22b&state=%3Cx%3E"
    assert answer.body == ""
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.requirement("http:oauth")
def test_without_the_option_there_is_no_way_in(flow: Flow) -> None:
    """A gateway as it is otherwise: open to this machine, and nothing of OAuth."""
    home = flow.cli.home / "plain"
    home.mkdir()
    plain = type(flow.cli)(home, flow.cli.env)
    plain.configure()
    url = plain.start_gateway()
    try:
        for path in ("/.well-known/oauth-authorization-server", "/ui/authorize"):
            assert fetch(url, path)[0] in {404, 403}
        body = json.dumps({"redirect_uris": [CALLBACK]}).encode()
        kind = {"Content-Type": "application/json"}
        assert fetch(url, "/oauth/register", method="POST", headers=kind, body=body)[0] == 404
    finally:
        assert plain("gateway", "stop").returncode == 0


@pytest.mark.requirement("http:oauth")
def test_tokens_that_cannot_be_read_are_not_named_to_strangers(flow: Flow) -> None:
    code = flow.code()
    [file] = flow.cli.home.rglob("tokens/tokens-*.json")
    content = file.read_bytes()
    file.write_bytes(b"{")
    try:
        status, answer = flow.exchange(code)
        assert (status, answer["error"]) == (503, "temporarily_unavailable")
        assert str(flow.cli.home) not in json.dumps(answer)
    finally:
        file.write_bytes(content)
    assert flow.exchange(code)[0] == 200


@pytest.mark.requirement("http:oauth")
def test_a_destructive_call_waits_for_the_owner(flow: Flow) -> None:
    token = flow.exchange(flow.code())[1]["access_token"]
    bearer = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    status, answer = fetch(
        flow.url, "/tools/mail__delete_mail", method="POST", headers=bearer, body=b"{}"
    )
    assert status == 403, answer
    assert "approve" in answer["error"] or "allow" in answer["error"]
