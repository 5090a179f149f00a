"""Network addresses as limits see them. Pure."""

from __future__ import annotations

import ipaddress


def neighbourhood(host: str) -> str:
    """What counts as one address: an IPv4 address, or the 64 bits of an IPv6 network, which one customer has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host
