"""What is in the shared database: its schema, its catalogues, and the gateways that are alive."""

from collections import defaultdict
from typing import Any

import msgspec

from toolscript.postgres import schema
from toolscript.postgres.driver import Connection
from toolscript.storage.database_status import CatalogueStatus, DatabaseStatus, ReplicaStatus

_COUNTS = """
select catalogue, store, count(*) from toolscript.record
where content is not null group by catalogue, store
"""
_CONTENTS = "select catalogue, content from toolscript.record where store = $1 and content <> ''"
_REPLICAS = """
select catalogue, id, url, version from toolscript.replica
where expires_at > clock_timestamp() order by catalogue, id
"""


async def status(connection: Connection) -> DatabaseStatus:
    """Returns the state of the database; no catalogues where the schema is not the one needed."""
    version = await schema.version_of(connection)
    is_known = version in {schema.latest(), schema.latest() + 1}
    return DatabaseStatus(
        server=await connection.fetchval("show server_version"),
        schema=version,
        needed=schema.latest(),
        catalogues=await _catalogues(connection) if is_known else (),
    )


async def _catalogues(connection: Connection) -> tuple[CatalogueStatus, ...]:
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for catalogue, store, count in await connection.fetch(_COUNTS):
        counts[catalogue][store] = count
    replicas: defaultdict[str, list[ReplicaStatus]] = defaultdict(list)
    for catalogue, identifier, url, version in await connection.fetch(_REPLICAS):
        replicas[catalogue].append(ReplicaStatus(id=identifier, url=url, version=version))
    tools = await _lengths(connection, "catalogue", "tools")
    tokens = await _lengths(connection, "tokens", "tokens")
    return tuple(
        CatalogueStatus(
            name=name,
            servers=counts[name].get("catalogue", 0),
            tools=tools[name],
            tokens=tokens[name],
            logins=counts[name].get("logins", 0),
            pins=counts[name].get("pins", 0),
            replicas=tuple(replicas[name]),
        )
        for name in sorted({*counts, *replicas})
    )


async def _lengths(connection: Connection, store: str, field: str) -> defaultdict[str, int]:
    """Returns by catalogue how long the lists are that the values of a store have as a field."""
    lengths: defaultdict[str, int] = defaultdict(int)
    for catalogue, content in await connection.fetch(_CONTENTS, store):
        try:
            lengths[catalogue] += len(msgspec.json.decode(content, type=dict[str, Any])[field])
        except (msgspec.MsgspecError, KeyError, TypeError):
            continue  # an entry without tools has no such field; one that is damaged counts as none
    return lengths
