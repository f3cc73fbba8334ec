"""Several hosts in one address."""

import asyncio
import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.postgres_server import PostgresServer
from toolscript.postgres.database_connect import connect, host_urls

HOST = st.from_regex(r"[a-z0-9.-]{1,8}(:[0-9]{1,4})?|\[::1\](:[0-9]{1,4})?", fullmatch=True)


@given(
    st.sampled_from(["", "user@", "user:p%40ss,word@"]),
    st.lists(HOST, min_size=1, max_size=4),
    st.sampled_from(["", "/made", "?a=b,c", "/made?target_session_attrs=read-write,x@y"]),
)
def test_each_host_gets_the_rest_of_the_address(user: str, hosts: list[str], rest: str) -> None:
    url = f"postgresql://{user}{','.join(hosts)}{rest}"
    assert host_urls(url) == [f"postgresql://{user}{host}{rest}" for host in hosts]


def test_a_host_that_is_silent_does_not_keep_the_next_one_waiting(postgres: PostgresServer) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{postgres.port}"

        async def port() -> int:
            connection = await connect(f"postgresql://postgres:x@{hosts}/postgres", timeout=30)
            try:
                return await connection.fetchval("select inet_server_port()")
            finally:
                await connection.close()

        assert asyncio.run(port()) == postgres.port


def test_what_the_last_host_says_is_raised() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        port = one.getsockname()[1]
    url = f"postgresql://postgres:x@127.0.0.1:{port},127.0.0.1:{port}/postgres"
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(connect(url, timeout=30))
