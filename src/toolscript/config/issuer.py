"""Reads ``issuer``, the object of the user's own file that names a company's OpenID provider."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, structs

from toolscript.config.variables import VariableError, Variables
from toolscript.errors import ConfigSyntaxError
from toolscript.text.display import encodable

_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_EXAMPLE = (
    '{"url": "https://login.example.com", "clientId": "toolscript", '
    '"profiles": {"engineering": "developer"}}'
)


class Issuer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A provider that logs people in for ``--oauth``, in the owner's place."""

    url: _Text
    client_id: _Text
    """The gateway's id there."""
    client_secret: str = ""
    """The gateway's secret there, or the variable of a stored one."""
    claim: _Text = "groups"
    """The claim with a person's groups."""
    profiles: Annotated[dict[str, _Text | list[_Text]], Meta(min_length=1)]
    """The profiles of each group."""

    def __repr__(self) -> str:
        """Has no secret: a log may show it."""
        return f"Issuer({self.url!r})"

    def profiles_of(self, group: str) -> list[str]:
        """Returns the profiles that the people of a group may use."""
        found = self.profiles.get(group, [])
        return [found] if isinstance(found, str) else found


def issuer_of(path: Path, document: Mapping[str, Any], environ: Mapping[str, str]) -> Issuer | None:
    """Returns the provider that a file names, or None; raises `ConfigSyntaxError`.

    Variables of the environment in the secret are replaced; that of a stored one stays.
    """
    if "issuer" not in document:
        return None
    try:
        issuer = msgspec.convert(document["issuer"], Issuer)
        secret = Variables(environ, secrets=set()).expand(issuer.client_secret)
    except (msgspec.ValidationError, VariableError) as mistake:
        problem = f"{path}: issuer: {mistake}; write it like {_EXAMPLE}"
        raise ConfigSyntaxError(encodable(problem)) from None
    return structs.replace(issuer, client_secret=secret)
