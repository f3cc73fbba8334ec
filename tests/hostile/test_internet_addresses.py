"""B8: one table of addresses for both checks: of documents of clients, and of logins."""

import ipaddress

import anyio
import httpx2
import pytest

from toolscript.gateway.internet_addresses import is_of_internet
from toolscript.gateway.oauth.login import may_be_asked

_LOCAL = """
127.0.0.1 127.255.255.254 0.0.0.0 169.254.169.254 :: ::1 fe80::1 ::ffff:127.0.0.1 ::127.0.0.1
::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1 64:ff9b:1::a9fe:a9fe
2002:7f00:1:: 2002:a9fe:a9fe::1 ::ffff:169.254.169.254 ::169.254.169.254
2001:0:1:1:0:0:80ff:fffe fe80::5efe:127.0.0.1 2606:4700::5efe:7f00:1 2606:4700::200:5efe:7f00:1
"""
_PRIVATE = """
10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 192.0.0.1 192.0.2.1 198.18.0.1
198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.255 fc00::1 fd00::1 fec0::1 feff::1 2001:db8::1
3fff::1 5f00::1 100::1 2001:2::1 2001:10::1 4000::1 ::10.0.0.1 ::ffff:10.0.0.1 ::ffff:0:10.0.0.1
64:ff9b::a00:1 64:ff9b:1::a00:1 64:ff9b:1::101:101 2002:a00:1:: 2002:c0a8:1::1
2606:4700::5efe:a00:1
"""
_PUBLIC = """
1.1.1.1 8.8.8.8 2606:4700::1 2a00:1450::1 64:ff9b::101:101 ::ffff:1.1.1.1 ::ffff:0:1.1.1.1
2002:101:101::1 2606:4700::5efe:101:101
"""
LOCAL, PRIVATE, PUBLIC = _LOCAL.split(), _PRIVATE.split(), _PUBLIC.split()
"""Addresses of this machine or its link, which nobody else may name; of networks; of all."""


def _is_named(address: str, server: str) -> bool:
    host = f"[{address}]" if ":" in address else address
    return anyio.run(may_be_asked, httpx2.URL(server), httpx2.URL(f"https://{host}/"))


@pytest.mark.parametrize("address", LOCAL + PRIVATE)
def test_b8_an_address_is_not_of_the_internet(address: str) -> None:
    """Neither is a document fetched there, nor may a server of the internet name it."""
    assert not is_of_internet(ipaddress.ip_address(address))
    assert not _is_named(address, "https://8.8.4.4/mcp")
    assert _is_named(address, "https://10.0.0.2/mcp") == (address in PRIVATE)


@pytest.mark.parametrize("address", PUBLIC)
def test_b8_an_address_is_of_the_internet(address: str) -> None:
    assert is_of_internet(ipaddress.ip_address(address))
    assert _is_named(address, "https://8.8.4.4/mcp")


@pytest.mark.parametrize("address", ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"])
def test_b8_an_address_of_many_is_none_of_the_internet(address: str) -> None:
    assert not is_of_internet(ipaddress.ip_address(address))
