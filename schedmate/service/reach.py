"""Who can reach an address."""

from __future__ import annotations

import ipaddress

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service on that address (a name or an IP address, brackets allowed)."""
    host = host.lower().strip("[]")
    try:
        return host in LOOPBACK_NAMES or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
