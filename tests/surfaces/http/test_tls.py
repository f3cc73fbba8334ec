"""A gateway that speaks TLS itself: its owner's commands, other clients, and pairs that fail."""

import json
import re
import ssl
from collections.abc import Callable, Generator
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.servers.certificates import Pair, key_bytes, make_pair
from tests.stdio_sessions import session
from tests.support import FUZZY, READ_FILE, Cli, Scripted, tool

from toolscript.config.settings import load_settings
from toolscript.errors import ConfigError
from toolscript.surfaces.server.tls import read_certificate

PUBLIC = "https://tools.example.com"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Cli, str, Path]]:
    """A gateway with a certificate of a private issuer: commands, address, the issuer's file."""
    home = tmp_path_factory.mktemp("tls")
    issuer = make_pair(home, "issuer")
    pair = make_pair(home, "gateway", "*.example.com", "localhost", issuer=issuer)
    cli = Cli(home, {**FUZZY, "TOOLSCRIPT_PUBLIC_URL": f"{PUBLIC}/"})
    cli.configure(files=Scripted(home)(READ_FILE, tool("count")))
    url = cli.start_gateway("--tls-cert", str(pair.file), "--tls-key", str(pair.key))
    with cli:
        yield cli, url, issuer.file


@pytest.mark.requirement("http:tls")
def test_commands_of_the_owner_trust_the_certificate_of_the_record(
    site: tuple[Cli, str, Path],
) -> None:
    """Its names are not the address at which they ask, and they do not know its issuer."""
    cli, url, _ = site
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", url)
    assert f"running at {url}" in cli("gateway", "status").stdout
    assert cli.json("list-servers")["servers"][0]["state"] == "ready"
    assert cli("gateway", "page", "--print").stdout.startswith(f"{PUBLIC}/ui/enter?code=")


@pytest.mark.requirement("http:tls")
def test_the_bridge_sends_and_receives_at_once(site: tuple[Cli, str, Path]) -> None:
    """Many large messages both ways: a connection is used by two threads."""
    cli, _, _ = site
    with session(cli) as client:
        query = "read a file " * 600
        numbers = [
            client.begin("tools/call", name="search_tools", arguments={"query": query})
            for _ in range(100)
        ]
        for number in numbers:
            assert "files__read_file" in json.dumps(client.answer(number))


@pytest.mark.requirement("http:tls")
def test_the_key_is_sent_to_no_other_certificate(site: tuple[Cli, str, Path]) -> None:
    """Even to one with the same names."""
    cli, _, _ = site
    [file] = cli.records
    written = file.read_text("utf-8")
    other = make_pair(cli.home, "other", "*.example.com", "localhost")
    try:
        record = json.loads(written) | {"certificate": other.file.read_text()}
        file.write_text(json.dumps(record), "utf-8")
        done = cli("gateway", "status")
        assert (done.returncode, "does not answer" in done.stdout) == (1, True)
    finally:
        file.write_text(written, "utf-8")


@pytest.mark.requirement("http:tls")
def test_other_clients_trust_an_issuer_of_ones_own_by_a_variable(
    site: tuple[Cli, str, Path],
) -> None:
    cli, url, issuer = site
    token = cli.json("token", "create")["token"]
    remote = {
        "TOOLSCRIPT_GATEWAY_URL": url.replace("127.0.0.1", "localhost"),
        "TOOLSCRIPT_GATEWAY_TOKEN": token,
    }
    trusting = {**remote, "SSL_CERT_FILE": str(issuer)}
    assert cli.json("list-servers", env=trusting)["servers"][0]["name"] == "files"
    abroad = Cli(cli.home, cli.env | trusting)
    with session(abroad) as client:
        assert client.ask("tools/list")["tools"]
    for env, why in (
        (remote, "the certificate of localhost is not trusted: unable to get local issuer"),
        ({**trusting, "TOOLSCRIPT_GATEWAY_URL": url}, "of 127.0.0.1 is not trusted: IP address"),
    ):
        for command in (["list-servers"], ["mcp"]):
            done = cli(*command, env=env)
            assert done.returncode == 1, done.stdout
            assert why in done.stderr
            assert "SSL_CERT_FILE" in done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr
    plain = remote | {"TOOLSCRIPT_GATEWAY_URL": url.replace("https", "http")}
    assert "no gateway answers" in cli("list-servers", env=plain).stderr


@pytest.mark.requirement("http:tls")
def test_the_cookie_of_the_page_is_for_https_alone(site: tuple[Cli, str, Path]) -> None:
    cli, url, issuer = site
    path = cli("gateway", "page", "--print").stdout.strip().removeprefix(PUBLIC)
    tls = ssl.create_default_context(cafile=issuer)
    connection = HTTPSConnection("localhost", urlsplit(url).port, context=tls)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 303
    assert "; Secure" in (answer.headers["set-cookie"] or "")
    connection.close()


def encrypt(pair: Pair, folder: Path) -> tuple[Path, Path]:
    key = folder / "encrypted.key"
    key.write_bytes(key_bytes(pair.private_key, b"secret"))
    return pair.file, key


def swap(pair: Pair, _: Path) -> tuple[Path, Path]:
    return pair.key, pair.file


def forget(pair: Pair, folder: Path) -> tuple[Path, Path]:
    return folder / "missing.pem", pair.key


def damage(pair: Pair, folder: Path) -> tuple[Path, Path]:
    file = folder / "damaged.pem"
    file.write_bytes(pair.file.read_bytes().replace(b"M", b"?"))
    return file, pair.key


UNUSABLE: dict[str, tuple[Callable[[Pair, Path], tuple[Path | None, Path | None]], str]] = {
    "no key": (lambda pair, _: (pair.file, None), "need each other"),
    "no certificate": (lambda pair, _: (None, pair.key), "need each other"),
    "a missing file": (forget, "--tls-cert .*missing.pem cannot be used: No such file"),
    "a folder": (lambda pair, folder: (pair.file, folder), "--tls-key .* cannot be used: Is a dir"),
    "swapped": (swap, "--tls-cert .*gateway.key cannot be used: it is not in PEM, or damaged"),
    "damaged": (damage, "--tls-cert .*damaged.pem cannot be used: it is not in PEM, or damaged"),
    "a certificate as the key": (lambda p, _: (p.file, p.file), "--tls-key .*gateway.pem cannot"),
    "a passphrase": (encrypt, "--tls-key .*encrypted.key has a passphrase"),
    "another key": (
        lambda pair, folder: (pair.file, make_pair(folder, "other", "a.example").key),
        "--tls-key .*other.key is not the key of --tls-cert .*gateway.pem",
    ),
}


def read(file: Path | None, key: Path | None) -> str:
    """The certificate that the gateway would have."""
    return read_certificate(load_settings({"tls_cert": file, "tls_key": key}, {}).server)


@pytest.mark.requirement("http:tls")
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_pair_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    make, why = UNUSABLE[case]
    with pytest.raises(ConfigError, match=why):
        read(*make(make_pair(tmp_path, "gateway", "a.example"), tmp_path))


@pytest.mark.requirement("http:tls")
def test_the_gateways_own_certificate_is_the_first(tmp_path: Path) -> None:
    pair, chain = make_pair(tmp_path, "gateway"), tmp_path / "chain.pem"
    chain.write_bytes(pair.file.read_bytes() + make_pair(tmp_path, "issuer").file.read_bytes())
    assert read(chain, pair.key) == pair.file.read_text()
