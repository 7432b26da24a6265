"""Which addresses are on the public Internet.

`ipaddress.is_global` and `is_private` disagree with each other and between Python versions, and both miss IPv4
addresses that are embedded in IPv6 ones. So this table is our own (IANA special-purpose registries, plus the metadata
addresses of clouds), and every embedded IPv4 address is checked too.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORBIDDEN_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network; Linux treats 0.0.0.0 as loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier NAT; Alibaba's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's platform address
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

GLOBAL_V6 = IPv6Network("2000::/3")  # the only block that has been allocated
FORBIDDEN_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: ORCHID, benchmarking …
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

MAPPED = IPv6Network("::ffff:0:0/96")
ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})  # RFC 5214: the bits before the IPv4 address, under any prefix
SIX_TO_FOUR = IPv6Network("2002::/16")
TEREDO = IPv6Network("2001::/32")
LOW_BITS = (
    MAPPED,
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated (SIIT)
    IPv6Network("64:ff9b::/96"),  # NAT64
    # Local NAT64 may put the IPv4 address at other bits too; those forms are refused because they are outside 2000::/3.
    IPv6Network("64:ff9b:1::/96"),
)


def unmap_ipv4(address: Address) -> Address:
    """An IPv4-mapped address as the IPv4 address that the kernel will connect to."""
    if isinstance(address, IPv6Address) and address in MAPPED:
        return address.ipv4_mapped or address
    return address


def list_embedded_ipv4(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses at which a packet to this address may arrive."""
    bits = int(address)
    if any(address in network for network in LOW_BITS) or (bits >> 32) & 0xFFFF_FFFF in ISATAP:
        return (_to_ipv4(bits),)
    if address in SIX_TO_FOUR:
        return (_to_ipv4(bits >> 80),)
    if address in TEREDO:  # RFC 4380: the server, and the client with its bits inverted
        return (_to_ipv4(bits >> 64), _to_ipv4(~bits))
    return ()


def is_public(address: Address) -> bool:
    """Whether an address is reachable by anyone on the Internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in FORBIDDEN_V4)
    if address.scope_id is not None:
        return False
    if embedded := list_embedded_ipv4(address):
        return all(is_public(inner) for inner in embedded)
    return address in GLOBAL_V6 and not any(address in network for network in FORBIDDEN_V6)


def _to_ipv4(bits: int) -> IPv4Address:
    return IPv4Address(bits & 0xFFFF_FFFF)
