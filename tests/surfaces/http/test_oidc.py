"""A company's provider logs people in: their groups say which profiles they may give clients."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.servers.oidc import SECRET, Provider
from tests.support import Cli, fetch, trust, until
from tests.surfaces.oauth_flow import Flow, led, oauth_gateway
from tests.surfaces.oidc_flow import KEY, issuer_for, visit

from toolscript.config.secret_store import SecretStore
from toolscript.config.servers import load_config


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Generator[Flow]:
    home = tmp_path_factory.mktemp("company")
    SecretStore(home / ".toolscript").set("company", SECRET)
    issuer = issuer_for(provider, clientSecret="${secret:company}")
    with oauth_gateway(home, issuer, TOOLSCRIPT_SECRET_KEY=KEY) as flow:
        yield flow


@pytest.mark.requirement("http:oidc")
def test_the_provider_is_asked_as_its_protocol_has_it(flow: Flow, provider: Provider) -> None:
    asked = visit(flow, provider).begin().asked
    assert asked["redirect_uri"] == f"{flow.url}/ui/authorize/return"
    assert asked["scope"] == "openid email profile groups"
    assert (asked["tenant"], asked["response_type"]) == ("1", "code")
    assert asked["code_challenge_method"] == "S256"
    again = visit(flow, provider).begin().asked
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name]) == 43
        assert asked[name] != again[name]


@pytest.mark.requirement("http:oidc")
def test_a_person_sees_who_asks_and_the_profiles_of_the_own_groups(
    flow: Flow, provider: Provider
) -> None:
    for person, account, profiles in (
        ("anna", "anna@corp.example", ["reader"]),
        ("otto", "otto", ["mailer", "reader"]),
    ):
        page = visit(flow, provider).begin().log_in(person).page
        assert page.one("h1").text == "May Notes use your tools?"
        strong = [each.text for each in page.one("main").all("strong")]
        assert strong == ["app.example", account]
        options = page.one("select", name="profile").all("option")
        assert [each.attributes["value"] for each in options] == profiles


@pytest.mark.requirement("http:oidc")
def test_consent_becomes_a_token_with_the_account_and_the_profile(
    flow: Flow, provider: Provider
) -> None:
    browser = visit(flow, provider)
    answer = led(browser.decide(browser.question("otto"), profile="mailer"))
    assert (answer["state"], answer["iss"]) == ("s1", flow.url)
    status, given = flow.exchange(answer["code"])
    assert status == 200, given
    headers = {"Authorization": f"Bearer {given['access_token']}"}
    tools = fetch(flow.url, "/tools", headers=headers)[1]["tools"]
    assert sorted(each["toolId"] for each in tools) == ["mail__delete_mail", "mail__send_mail"]
    [token] = [each for each in flow.tokens() if each["name"] == "Notes (app.example) for otto"]
    assert (token["profiles"], bool(token["expires"])) == (["mailer"], True)
    assert flow.cli("token", "revoke", token["id"]).returncode == 0
    until(lambda: flow.opens(given["access_token"]) == 401, "the token counts no more")


@pytest.mark.requirement("http:oidc")
def test_the_address_of_a_profile_leaves_only_that(flow: Flow, provider: Provider) -> None:
    browser = visit(flow, provider).begin(resource=f"{flow.url}/mcp/p/mailer")
    options = browser.log_in("otto").page.one("select", name="profile").all("option")
    assert [each.attributes["value"] for each in options] == ["mailer"]


@pytest.mark.requirement("http:oidc")
def test_the_owner_is_not_asked(flow: Flow) -> None:
    """Not even in the browser in which the owner is logged in."""
    assert flow.ask(flow.owner).status == 303


@pytest.mark.requirement("http:oidc")
def test_the_keys_are_fetched_again_for_a_new_one(flow: Flow, provider: Provider) -> None:
    """And not for each token."""
    for _ in range(3):
        assert visit(flow, provider).begin().log_in().status == 200
    assert provider.fetches.count("/keys") <= 2
    assert provider.fetches.count("/.well-known/openid-configuration") == 1


@pytest.mark.requirement("http:oidc")
def test_a_cookie_of_the_log_in_is_for_its_page(flow: Flow) -> None:
    answer = flow.ask(flow.stranger)
    cookie = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "Path=/ui/authorize", "SameSite=lax", "Max-Age=600"} <= {*cookie}
    assert "Secure" not in cookie, "it speaks plain HTTP on this machine"


@pytest.mark.requirement("http:oidc")
def test_a_long_request_is_refused_before_the_log_in(flow: Flow) -> None:
    answer = flow.ask(flow.stranger, state="s" * 3_500)
    assert answer.status == 400
    assert "too long" in answer.page.text


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"url": "http://login.example.com"}, "needs https"),
        ({"clientId": ""}, "at `$.clientId`; write it like {"),
        ({"clientId": None}, "at `$.clientId`"),
        ({"clientID": "x"}, "unknown field `clientID`"),
        ({"profiles": {}}, "at `$.profiles`"),
        ({"profiles": "a=reader"}, "at `$.profiles`"),
        ({"profiles": {"a": "missing"}}, "no profile is called 'missing'"),
        ({"clientSecret": "${secret:x}"}, "toolscript secret set x"),
        ({"clientSecret": "${UNSET_HERE}"}, "issuer: "),
    ],
)
def test_an_issuer_that_does_not_fit_is_told_of(
    change: dict[str, Any], why: str, cli: Cli, provider: Provider
) -> None:
    given = {**issuer_for(provider, profiles={"a": "reader"}), **change}
    document = {"mcpServers": {}, "profiles": {"reader": ["files"]}, "issuer": given}
    cli.configure().write_text(json.dumps(document), "utf-8")
    done = cli("gateway", "start", "--port", "0", "--oauth")
    assert done.returncode == 2
    assert why in done.stderr
    assert SECRET not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.requirement("http:oidc")
def test_a_project_names_no_issuer(cli: Cli, provider: Provider) -> None:
    """Else a repository could say who may use the owner's tools."""
    cli.configure()
    project = cli.home / "work" / ".toolscript.json"
    project.parent.mkdir()
    project.write_text(json.dumps({"mcpServers": {}, "issuer": issuer_for(provider)}), "utf-8")
    trusted = trust(cli.home / ".toolscript", project)
    found = load_config(None, project.parent, {"HOME": str(cli.home)}, trusted)
    assert found.issuer is None
    [line] = found.key_problems
    assert "issuer counts in your own file alone" in line
