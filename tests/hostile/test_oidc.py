"""Attacks on the log-in by a company's provider.

As the security considerations of OpenID Connect, RFC 8725 (tokens), 9207 (issuers) and 9700 list
them. Each row changes one step of a log-in that would succeed; none may show a question, give a
code, or make a token.
"""

import json
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import HMACAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

from tests.servers.oidc import CLIENT, SECRET, Provider, oidc_provider
from tests.support import create_token
from tests.surfaces.oauth_flow import CHALLENGE, VERIFIER, Flow, led, oauth_gateway
from tests.surfaces.oidc_flow import KEY, RETURN, Visit, issuer_for, visit
from tests.surfaces.web.browser import Answer
from toolscript.config.access_tokens import TokenStore
from toolscript.config.issuer import Issuer, issuer_of
from toolscript.config.secret_key import SecretKey
from toolscript.errors import DeniedError
from toolscript.surfaces.server.authorization_server import OAuthServer
from toolscript.surfaces.server.oauth_client_metadata import ClientDocuments
from toolscript.surfaces.server.oidc_client import OidcClient
from toolscript.surfaces.server.page_sessions import PendingLogIn

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Generator[Flow]:
    with oauth_gateway(
        tmp_path_factory.mktemp("company"), issuer_for(provider), TOOLSCRIPT_SECRET_KEY=KEY
    ) as flow:
        yield flow


def count(flow: Flow) -> int:
    """How many tokens there are."""
    files = list(flow.cli.home.rglob("tokens/tokens-*.json"))
    return sum(len(json.loads(file.read_bytes())["tokens"]) for file in files)


def check_refused(answer: Answer) -> None:
    """An answer that refuses, asks nothing, and leads nowhere."""
    assert "refresh" not in answer.headers
    assert SECRET not in answer.body
    assert answer.status in {400, 401, 403, 404, 405}, answer.body
    assert "location" not in answer.headers
    if answer.headers["content-type"].startswith("text/html"):
        assert answer.page.all("input", name="request") == []
        assert answer.page.all("script") == [
            each for each in answer.page.all("script") if each.attributes.get("src")
        ]


# ID tokens

Changes = dict[str, Any]
NOW = int(time.time())


def sign_none(provider: Provider, asked: dict[str, str], name: str = "none", end: str = "") -> str:
    """A token without a signature."""
    honest = {"iss": provider.url, "sub": "x", "aud": CLIENT, "exp": NOW + 900, "iat": NOW}
    claims = {**honest, "nonce": asked["nonce"], "groups": ["engineering"]}
    token = jwt.encode(claims, "", "none", headers={"kid": "one"})
    head = base64url_encode(json.dumps({"alg": name, "kid": "one"}).encode()).decode()
    return f"{head}.{token.split('.')[1]}.{end}"


def sign_with_public_key(provider: Provider, asked: dict[str, str]) -> str:
    """HS256 with the issuer's public key in the place of a secret, as RFC 8725 has it."""
    pem = provider.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sign_hmac(pem, sign_none(provider, asked))


def sign_hmac(secret: bytes, token: str) -> str:
    """A token of the same claims with HS256."""
    head = base64url_encode(b'{"alg": "HS256", "kid": "one", "typ": "JWT"}').decode()
    text = f"{head}.{token.split('.')[1]}"
    algorithm = HMACAlgorithm(HMACAlgorithm.SHA256)
    signature = algorithm.sign(text.encode(), secret)
    return f"{text}.{base64url_encode(signature).decode()}"


def change_payload(provider: Provider, asked: dict[str, str], *, signature: bool) -> str:
    """An honest token of Eve with other claims."""
    code = provider.grant(asked, "eve")
    grant = provider.codes.pop(code)
    head, _, end = jwt.encode(grant.claims, provider.key, "RS256", headers=grant.headers).split(".")
    payload = sign_none(provider, asked).split(".")[1]
    return f"{head}.{payload}.{end if signature else ''}"


def other_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def own_jwk() -> Changes:
    """A token with its own key in its head."""
    key = other_key()
    jwk = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {"key": key, "headers": {"jwk": jwk}}


CLAIMS: dict[str, Changes] = {
    "a foreign issuer": {"claims": {"iss": "https://evil.example"}},
    "no issuer": {"claims": {"iss": None}},
    "another audience": {"claims": {"aud": "other"}},
    "no audience": {"claims": {"aud": None}},
    "an audience in other letters": {"claims": {"aud": CLIENT.upper()}},
    "several audiences": {"claims": {"aud": [CLIENT, "other"]}},
    "several audiences for another party": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
    "another party": {"claims": {"azp": "other"}},
    "expired": {"claims": {"exp": NOW - 3600}},
    "no end": {"claims": {"exp": None}},
    "an end that is no number": {"claims": {"exp": "never"}},
    "not yet valid": {"claims": {"nbf": NOW + 3600}},
    "made in the future": {"claims": {"iat": NOW + 3600}},
    "no beginning": {"claims": {"iat": None}},
    "nobody": {"claims": {"sub": None}},
    "a subject that is no text": {"claims": {"sub": 5}},
    "no nonce": {"claims": {"nonce": None}},
    "another nonce": {"claims": {"nonce": "n" * 43}},
    "an empty nonce": {"claims": {"nonce": ""}},
    "no id of a key": {"headers": {"kid": None}},
    "an id that is a path": {"headers": {"kid": "../../keys"}},
    "an empty token": {"raw": ""},
    "a number": {"raw": 5},
    "a list": {"raw": [[]]},
    "two dots": {"raw": ".."},
    "four dots": {"raw": "eyJhbGciOiJSU0EtT0FFUCJ9.e.e.e.e"},
    "letters beyond ASCII": {"raw": "ä.ö.ü"},
    "a person of no group": {"person": "eve"},
    "no groups": {"claims": {"groups": None}},
    "the beginning of a group": {"claims": {"groups": ["engineer"]}},
    "a group in other letters": {"claims": {"groups": ["Engineering"]}},
    "groups within a text": {"claims": {"groups": "engineering support"}},
    "groups within a list": {"claims": {"groups": [["engineering"]]}},
    "groups as names": {"claims": {"groups": {"engineering": True}}},
    "the name of a profile as a group": {"claims": {"groups": ["reader", "mailer"]}},
    "a pair as a group": {"claims": {"groups": ["engineering=reader"]}},
}
MADE: dict[str, Callable[[Provider, dict[str, str]], Changes]] = {
    "the issuer with a slash": lambda p, _: {"claims": {"iss": f"{p.url}/"}},
    "a list of nonces": lambda _, asked: {"claims": {"nonce": [asked["nonce"]]}},
    "alg none": lambda p, asked: {"raw": sign_none(p, asked)},
    "alg None": lambda p, asked: {"raw": sign_none(p, asked, "None")},
    "alg nOnE with a signature": lambda p, asked: {"raw": sign_none(p, asked, "nOnE", "eA")},
    "no alg": lambda p, asked: {"raw": sign_none(p, asked, "")},
    "HS256 with the public key": lambda p, asked: {"raw": sign_with_public_key(p, asked)},
    "HS256 with the client secret": lambda p, asked: {
        "raw": sign_hmac(SECRET.encode(), sign_none(p, asked))
    },
    "HS256 with nothing": lambda p, asked: {"raw": sign_hmac(b"", sign_none(p, asked))},
    "an unknown key": lambda _p, _a: {"key": other_key(), "headers": {"kid": "two"}},
    "the id of a key with another key": lambda _p, _a: {"key": other_key()},
    "the key for encryption": lambda p, _: {
        "key": p.other,
        "algorithm": "ES256",
        "headers": {"kid": "sealing"},
    },
    "another algorithm for the key": lambda p, _: {"key": p.other, "algorithm": "ES256"},
    "its own key": lambda _p, _a: own_jwk(),
    "the address of its own key": lambda _p, _a: {
        "key": other_key(),
        "headers": {"jku": "https://evil.example/keys"},
    },
    "other claims": lambda p, asked: {"raw": change_payload(p, asked, signature=True)},
    "other claims, no signature": lambda p, asked: {
        "raw": change_payload(p, asked, signature=False)
    },
}


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("name", [*CLAIMS, *MADE])
def test_no_such_token_asks_anything(name: str, flow: Flow, provider: Provider) -> None:
    browser = visit(flow, provider).begin()
    changes = MADE[name](provider, browser.asked) if name in MADE else CLAIMS[name]
    check_refused(browser.log_in(**changes))


# The provider's answer


def with_cookie_of(browser: Visit, other: Visit) -> Visit:
    """The browser, with the other's cookies."""
    browser.browser.cookies = dict(other.browser.cookies)
    return browser


def replay(browser: Visit) -> Answer:
    """The same answer again, once it has counted."""
    code = browser.provider.grant(browser.asked)
    assert browser.come_back(code).status == 200
    return browser.come_back(code)


def code_of_another(browser: Visit) -> Answer:
    """A code that was given to somebody else's log-in, in the victim's."""
    other = visit(browser.flow, browser.provider).begin()
    return browser.come_back(browser.provider.grant(other.asked))


def token_of_another(browser: Visit) -> Answer:
    """A token of somebody else's log-in, by a provider that mixes them up."""
    other = visit(browser.flow, browser.provider).begin()
    return browser.log_in(claims={"nonce": other.asked["nonce"]})


def sealed_cookie(browser: Visit, value: object, purpose: str = "log-in", key: str = KEY) -> Visit:
    """The browser with a cookie that whoever has the key has sealed."""
    folder = browser.flow.cli.home
    oauth = OAuthServer(
        browser.flow.url, SecretKey(key), TokenStore(folder, "x"), ClientDocuments()
    )
    [name] = [each for each in browser.browser.cookies if each.endswith("_log_in")]
    browser.browser.cookies[name] = oauth.seal(purpose, value)
    return browser


def log_in_of(browser: Visit, expires_s: float = 60) -> PendingLogIn:
    """A log-in as the gateway would seal it, which ends in so many seconds."""
    browser.asked["code_challenge"] = CHALLENGE
    query = urlencode(browser.flow.parameters())
    state, nonce = browser.asked["state"], browser.asked["nonce"]
    return PendingLogIn(state, nonce, VERIFIER, query, time.time() + expires_s)


ANSWERS: dict[str, Callable[[Visit], Answer]] = {
    "another state": lambda v: v.come_back(v.provider.grant(v.asked), state="s" * 43),
    "no state": lambda v: v.come_back(v.provider.grant(v.asked), state=None),
    "an empty state": lambda v: v.come_back(v.provider.grant(v.asked), state=""),
    "the state twice": lambda v: v.come_back(
        v.provider.grant(v.asked), state=[v.asked["state"], v.asked["state"]]
    ),
    "a state beyond ASCII": lambda v: v.come_back(v.provider.grant(v.asked), state="ä"),
    "the state of another browser": lambda v: v.come_back(
        v.provider.grant(v.asked), state=visit(v.flow, v.provider).begin().asked["state"]
    ),
    "no cookie": lambda v: Visit(v.flow, v.provider, v.flow.stranger, v.asked).log_in(),
    "the cookie of another browser": lambda v: with_cookie_of(
        v, visit(v.flow, v.provider).begin()
    ).log_in(),
    "a cookie of another key": lambda v: sealed_cookie(v, log_in_of(v), key="x" * 32).log_in(),
    "a cookie for another purpose": lambda v: sealed_cookie(v, log_in_of(v), "request").log_in(),
    "a cookie that is too old": lambda v: sealed_cookie(v, log_in_of(v, expires_s=-1)).log_in(),
    "a cookie of another shape": lambda v: sealed_cookie(v, ["state"]).log_in(),
    "a code that comes again": replay,
    "a code of another log-in": code_of_another,
    "a token of another log-in": token_of_another,
    "an invented code": lambda v: v.come_back("invented"),
    "a code of ours": lambda v: v.come_back(v.flow.client_id),
    "a code twice": lambda v: v.come_back(["a", v.provider.grant(v.asked)]),
    "no code": lambda v: v.come_back(None),
    "a foreign issuer": lambda v: v.come_back(
        v.provider.grant(v.asked), iss="https://evil.example"
    ),
    "our own issuer": lambda v: v.come_back(v.provider.grant(v.asked), iss=v.flow.url),
    "no issuer": lambda v: v.come_back(v.provider.grant(v.asked), iss=None),
    "an error": lambda v: v.come_back(error="access_denied"),
    "an error beside a code": lambda v: v.come_back(v.provider.grant(v.asked), error="none"),
    "an empty error beside a code": lambda v: v.come_back(v.provider.grant(v.asked), error=""),
    "an ID token in the answer": lambda v: v.come_back(
        None, id_token=sign_none(v.provider, v.asked)
    ),
    "a form": lambda v: v.browser.send(
        RETURN, code=v.provider.grant(v.asked), state=v.asked["state"]
    ),
}


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("name", ANSWERS)
def test_no_such_answer_asks_anything(name: str, flow: Flow, provider: Provider) -> None:
    before = count(flow)
    check_refused(ANSWERS[name](visit(flow, provider).begin()))
    assert count(flow) == before


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("destination", ["empty", "iframe", "image", "script"])
def test_only_a_visit_comes_back(destination: str, flow: Flow, provider: Provider) -> None:
    """No page sends the browser's cookie there by a frame or a request of its own."""
    browser = visit(flow, provider).begin()
    code = provider.grant(browser.asked)
    headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": destination}
    query = f"code={code}&state={browser.asked['state']}"
    answer = browser.browser.open(f"{RETURN}?{query}", **headers)
    assert answer.status == 403
    assert code in provider.codes, "it was not sent"


@pytest.mark.requirement("http:oidc")
def test_an_error_is_shown_as_a_text(flow: Flow, provider: Provider) -> None:
    browser = visit(flow, provider).begin()
    answer = browser.come_back(error=MARKUP, error_description=f"{MARKUP}\u202e\r\nX: y")
    assert answer.status == 403
    assert MARKUP not in answer.body
    assert f"does not let you in: {MARKUP}: {MARKUP}" in answer.page.text
    assert "\u202e" not in answer.body


# The form


def grow(browser: Visit) -> Answer:
    """Anna gets into a second group between her log-in and her consent."""
    request = browser.question()
    other = Visit(browser.flow, browser.provider, browser.browser)
    return other.decide(request, profile="mailer")


def by_another(browser: Visit, profile: str) -> Answer:
    """Anna's question, in the browser in which Otto has logged in."""
    request = browser.question()
    other = visit(browser.flow, browser.provider).begin()
    assert other.log_in("otto").status == 200
    return other.decide(request, profile=profile)


def after_another(browser: Visit) -> Answer:
    """Anna's question, once Otto has begun to log in in the same browser."""
    request = browser.question()
    browser.begin()
    assert browser.log_in("otto").status == 200
    return browser.decide(request, profile="mailer")


def by_bearer(browser: Visit) -> Answer:
    """A token for everything decides nothing."""
    token = create_token(browser.flow.cli)["token"]
    request = browser.question()
    browser.browser.cookies.clear()
    body = f"request={request}&answer=allow&profile=reader&days=7"
    headers = {"Content_Type": "application/x-www-form-urlencoded", "Origin": browser.flow.url}
    return browser.browser.open(
        "/ui/authorize", "POST", body, Authorization=f"Bearer {token}", **headers
    )


def of_another_site(browser: Visit) -> Answer:
    body = f"request={browser.question()}&answer=allow&profile=reader&days=7"
    headers = {"Content_Type": "application/x-www-form-urlencoded"}
    evil = {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}
    return browser.browser.open("/ui/authorize", "POST", body, **headers, **evil)


def of_nobody(browser: Visit) -> Answer:
    """A form that does not say that it is the page's own."""
    body = f"request={browser.question()}&answer=allow&profile=reader&days=7"
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    return browser.browser.open("/ui/authorize", "POST", body, **kind)


def without_cookie(browser: Visit) -> Answer:
    request = browser.question()
    browser.browser.cookies.clear()
    return browser.decide(request)


def by_owner(browser: Visit) -> Answer:
    """The gateway's owner, who has not logged in at the provider."""
    request = browser.question()
    browser.browser.cookies = dict(browser.flow.owner.cookies)
    return browser.decide(request)


def of_the_client(browser: Visit) -> Answer:
    """A request that was sealed without a log-in, as for the owner."""
    folder = browser.flow.cli.home
    oauth = OAuthServer(
        browser.flow.url, SecretKey(KEY), TokenStore(folder, "x"), ClientDocuments()
    )
    browser.begin()
    asked = anyio.run(oauth.check, browser.flow.parameters().items())
    return browser.decide(oauth.seal_request(asked), profile="")


FORMS: dict[str, Callable[[Visit], Answer]] = {
    "another group's profile": lambda v: v.decide(v.question(), profile="mailer"),
    "every tool": lambda v: v.decide(v.question(), profile=""),
    "no profile that there is": lambda v: v.decide(v.question(), profile="missing"),
    "a group in the place of a profile": lambda v: v.decide(v.question(), profile="engineering"),
    "two profiles": lambda v: v.decide(v.question(), profile=["mailer", "reader"]),
    "a profile's address of another group": lambda v: v.begin(
        resource=f"{v.flow.url}/mcp/p/mailer"
    ).log_in(),
    "the address of no profile": lambda v: v.begin(resource=f"{v.flow.url}/mcp/p/missing").log_in(),
    "a group that came later": grow,
    "another person's browser": lambda v: by_another(v, "reader"),
    "another person's browser and profile": lambda v: by_another(v, "mailer"),
    "another person in the same browser": after_another,
    "a bearer of everything": by_bearer,
    "the owner": by_owner,
    "another site": of_another_site,
    "nobody's form": of_nobody,
    "no cookie": without_cookie,
    "no log-in": of_the_client,
    "a request with one letter more": lambda v: v.decide(f"{v.question()}A"),
    "no request": lambda v: v.decide(v.question()[:0]),
    "years": lambda v: v.decide(v.question(), days="9999"),
}


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("name", FORMS)
def test_no_such_form_gives_a_code(name: str, flow: Flow, provider: Provider) -> None:
    check_refused(FORMS[name](visit(flow, provider)))


@pytest.mark.requirement("http:oidc")
def test_an_honest_form_gives_a_code(flow: Flow, provider: Provider) -> None:
    """The rows are refused for what they change."""
    browser = visit(flow, provider)
    assert led(browser.decide(browser.question()))["code"]
    browser.begin()
    assert sealed_cookie(browser, log_in_of(browser)).log_in().status == 200


# The client's request, and what the provider says about itself


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"client_id": "client-forged"},
        {"code_challenge": None},
        {"resource": "https://evil.example/mcp"},
        {"state": ["a", "b"]},
    ],
)
def test_a_request_that_may_not_be_asked_leads_nowhere_after_the_log_in(
    changes: dict[str, Any], flow: Flow, provider: Provider
) -> None:
    check_refused(visit(flow, provider).begin(**changes).log_in())


METADATA: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "no issuer": {"issuer": None},
    "a token endpoint without https": {"token_endpoint": "http://evil.example/token"},
    "keys without https": {"jwks_uri": "http://evil.example/keys"},
    "keys in a file": {"jwks_uri": "file:///etc/passwd"},
    "a log-in without https": {"authorization_endpoint": "http://evil.example/auth"},
    "a log-in that is a script": {"authorization_endpoint": "javascript:alert(1)"},
    "no keys": {"jwks_uri": None},
}


def issuer_in_file(provider: Provider, **changes: Any) -> Issuer:
    issuer = issuer_of(Path("servers.json"), {"issuer": issuer_for(provider, **changes)}, {})
    assert issuer is not None
    return issuer


def named(provider: Provider, **changes: Any) -> OidcClient:
    """The provider as a gateway sees it that has just begun."""
    issuer = issuer_in_file(provider, **changes)
    return OidcClient(issuer, Path(), "http://127.0.0.1:1", ["reader", "mailer"])


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("name", METADATA)
def test_no_such_provider_is_believed(name: str) -> None:
    with oidc_provider() as provider:
        provider.metadata = METADATA[name]
        with pytest.raises(DeniedError):
            anyio.run(named(provider).begin, "")


@pytest.mark.requirement("http:oidc")
@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_counts_only_if_the_provider_has_verified_it(
    verified: object, provider: Provider
) -> None:
    """Anybody may write another person's address into an account of one's own."""
    changes = {"claim": "email", "profiles": {"anna@corp.example": "mailer"}}

    async def log_in(claims: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        one = named(provider, **changes)
        url, way = await one.begin("")
        asked = {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()}
        code = provider.grant(asked, claims=claims)
        return await one.finish(way, [("code", code), ("state", way.state), ("iss", provider.url)])

    assert anyio.run(log_in, dict[str, Any]()) == ("anna@corp.example", ("mailer",))
    account, profiles = anyio.run(log_in, {"email_verified": verified})
    assert (account, profiles) == ("id-of-anna", ())


@pytest.mark.requirement("http:oidc")
def test_a_secret_that_the_provider_quotes_is_not_shown(provider: Provider) -> None:
    """Neither is it in the representation of the configuration, which a log may have."""

    async def log_in() -> None:
        one = named(provider, clientSecret=f"{SECRET}x")
        _, way = await one.begin("")
        await one.finish(way, [("code", "x"), ("state", way.state), ("iss", provider.url)])

    with pytest.raises(DeniedError, match="invalid_client") as refused:
        anyio.run(log_in)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(issuer_in_file(provider))


def test_no_log_has_a_secret(flow: Flow) -> None:
    """After everything above, or any part of it."""
    for log in flow.cli.home.rglob("*.log"):
        text = log.read_text("utf-8")
        assert SECRET not in text
        assert "code-" not in text
