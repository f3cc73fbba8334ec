"""The state of a shared database: its tables, its catalogues, and the gateways that are alive."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway that is alive."""

    id: str
    url: str
    version: str


class CatalogueStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the gateways of one catalogue share."""

    name: str
    servers: int
    tools: int
    tokens: int
    logins: int
    pins: Annotated[int, Meta(description="Servers of which definitions were accepted.")]
    replicas: tuple[ReplicaStatus, ...]


class DatabaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the database."""

    server: Annotated[str, Meta(description="The version of PostgreSQL.")]
    schema: Annotated[int, Meta(description="The version of the tables; 0 if there are none.")]
    needed: Annotated[int, Meta(description="The version that this release needs.")]
    catalogues: tuple[CatalogueStatus, ...] = ()
