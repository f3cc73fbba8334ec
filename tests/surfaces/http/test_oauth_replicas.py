"""Logging in by OAuth at several gateways behind one address: they agree within a second."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support import FUZZY, READ_FILE, Cli, Scripted, in_database, stop_all, until
from tests.surfaces.oauth_flow import Flow, led
from tests.surfaces.web.browser import Browser

PUBLIC = "https://tools.example.com"


@pytest.fixture
def replicas(tmp_path: Path, database_url: str) -> Generator[list[Flow]]:
    """Two gateways with one public address and one database, each with its owner's browser."""
    made: list[Flow] = []
    scripted = Scripted(tmp_path)
    try:
        for name in ("one", "two"):
            home = tmp_path / name
            home.mkdir()
            env = {**FUZZY, **in_database(database_url), "TOOLSCRIPT_PUBLIC_URL": PUBLIC}
            cli = Cli(home, env)
            cli.configure(files=scripted(READ_FILE))
            url = cli.start_gateway("--oauth")
            link = cli("gateway", "page", "--print").stdout.strip()
            assert link.startswith(f"{PUBLIC}/ui/enter?code=")
            owner = Browser(url)
            assert owner.open(link.removeprefix(PUBLIC)).status == 303
            made.append(Flow(cli, url, owner, Browser(url), issuer=PUBLIC))
        yield made
    finally:
        stop_all(
            json.loads(file.read_text("utf-8"))["pid"] for each in made for file in each.cli.records
        )


@pytest.mark.requirement("http:oauth")
def test_each_step_may_reach_another_replica(replicas: list[Flow]) -> None:
    one, two = replicas
    status, registered = one.register()
    assert status == 201
    one.client_id = two.client_id = registered["client_id"]
    answer = led(two.decide(two.held()))
    assert answer["iss"] == PUBLIC
    status, given = one.exchange(answer["code"])
    assert status == 200, given
    token = given["access_token"]
    for each in replicas:
        until(lambda each=each: each.opens(token) == 200, "the token counts")
    [listed] = two.cli.json("token", "list")["tokens"]
    assert listed["name"] == "Notes (app.example)"

    assert two.exchange(answer["code"])[1]["error"] == "invalid_grant"
    for each in replicas:
        until(lambda each=each: each.opens(token) == 401, "the token was taken back")

    again = one.exchange(two.code())[1]["access_token"]
    for each in replicas:
        until(lambda each=each: each.opens(again) == 200, "the token counts")
    [listed] = one.cli.json("token", "list")["tokens"]
    assert two.cli("token", "revoke", listed["id"]).returncode == 0
    for each in replicas:
        until(lambda each=each: each.opens(again) == 401, "the token counts no more")
