"""The steps of a log-in by a company's provider, one by one."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.servers.oidc import CLIENT, SECRET, Provider
from tests.surfaces.oauth_flow import Flow
from tests.surfaces.web.browser import Answer, Browser

RETURN = "/ui/authorize/return"
KEY = "k" * 32


def issuer_for(provider: Provider, **changes: Any) -> dict[str, Any]:
    """The object of a configuration that names a provider, with ``changes``."""
    return {
        "url": provider.url,
        "clientId": CLIENT,
        "clientSecret": SECRET,
        "profiles": {"engineering": "reader", "support": ["mailer"]},
        **changes,
    }


@dataclass
class Visit:
    """A browser in which a client asks, and a person logs in."""

    flow: Flow
    provider: Provider
    browser: Browser
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """What the gateway has asked the provider for."""

    def begin(self, **changes: Any) -> "Visit":
        """Follows the client to the gateway, which leads to the provider."""
        answer = self.flow.ask(self.browser, **changes)
        assert answer.status == 303, answer.body
        parts = urlsplit(answer.headers["location"])
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.provider.url}/auth"
        self.asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return self

    def come_back(self, code: Any = "", **changes: Any) -> Answer:
        """Returns from the provider with a code, and what it says besides, with ``changes``."""
        said = {"code": code, "state": self.asked["state"], "iss": self.provider.url, **changes}
        present = {name: value for name, value in said.items() if value is not None}
        query = urlencode(present, doseq=True)
        headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}
        return self.browser.open(f"{RETURN}?{query}", **headers)

    def log_in(self, person: str = "anna", **changes: Any) -> Answer:
        """Logs in at the provider, and returns."""
        return self.come_back(self.provider.grant(self.asked, person, **changes))

    def question(self, person: str = "anna", **changes: Any) -> str:
        """The sealed request of the page that asks the person."""
        answer = self.begin(**changes).log_in(person)
        assert answer.status == 200, answer.body
        return answer.page.one("input", name="request").attributes["value"] or ""

    def decide(self, request: str, **fields: Any) -> Answer:
        """What comes back once the person has decided."""
        honest = {"request": request, "answer": "allow", "profile": "reader", "days": "7"}
        return self.browser.send("/ui/authorize", **honest | fields)


def visit(flow: Flow, provider: Provider) -> Visit:
    """A new browser."""
    return Visit(flow, provider, Browser(flow.url))
