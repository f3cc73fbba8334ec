"""Distinguishes public addresses from those that only some networks or this machine have."""

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
_INTERNET = ip_network("2000::/3")
_SPECIAL = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
"""Parts of it for protocols and documents."""
_IPV4_AT_THE_END = tuple(
    map(ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
"""Compatible and mapped addresses, and those of translators: SIIT and NAT64."""
_LOCAL_NAT64, _6TO4 = ip_network("64:ff9b:1::/48"), ip_network("2002::/16")
_ISATAP = {0x00005EFE, 0x02005EFE}


def is_of_internet(address: Address) -> bool:
    """Returns whether the address is of the internet, and so is an IPv4 address within it."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    inner = inner_address(address)
    if inner is not None and not is_of_internet(inner):
        return False
    if address in _6TO4 or any(address in network for network in _IPV4_AT_THE_END):
        return True
    return address in _INTERNET and not any(address in network for network in _SPECIAL)


def inner_address(address: IPv6Address) -> IPv4Address | None:
    """Returns the IPv4 address to which a tunnel or a translator may lead; None for no such."""
    if address in _6TO4:
        return address.sixtofour
    if address.teredo:
        return address.teredo[1]
    is_translated = address in _LOCAL_NAT64 or any(address in each for each in _IPV4_AT_THE_END)
    is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
    return IPv4Address(int(address) & 0xFFFFFFFF) if is_translated or is_isatap else None
