"""Ways to spell an address that a link must not lead to. Nothing here is public."""

from ipaddress import IPv4Address

TARGETS = (
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "10.0.0.1",
    "100.100.100.200",  # Alibaba's metadata
    "168.63.129.16",  # Azure's platform address
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",  # Oracle's metadata
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
)


def in_v4(target: str) -> list[str]:
    a, b, c, d = (int(part) for part in target.split("."))
    whole = int(IPv4Address(target))
    return [
        target,
        f"{target}.",
        str(whole),
        f"0x{whole:x}",
        f"0X{whole:X}",
        f"0{whole:o}",
        f"{a}.{b * 65536 + c * 256 + d}",
        f"{a}.{b}.{c * 256 + d}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"0x{a:x}.{b}.0{c:o}.{d}",
        target.replace(".", "。"),
        target.replace(".", "．"),
        target.translate({ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)}),
        target.translate({ord(str(digit)): chr(0x1D7CE + digit) for digit in range(10)}),
        target.replace(".", "%2e"),
    ]


def in_v6(target: str) -> list[str]:
    """IPv6 addresses that carry `target`."""
    whole = int(IPv4Address(target))
    high, low = whole >> 16, whole & 0xFFFF
    return [
        f"::ffff:{target}",
        f"::ffff:{high:x}:{low:x}",
        f"0:0:0:0:0:ffff:{high:04x}:{low:04x}",
        f"::{target}",
        f"::ffff:0:{target}",
        f"64:ff9b::{target}",
        f"64:ff9b:1::{target}",
        f"64:ff9b:1:{high:x}:{low >> 8:x}:{(low & 0xFF) << 8:x}::",
        f"2002:{high:x}:{low:x}::",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::f7f7:f7f7",
        f"2001:0:808:808::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
        f"2606:4700::5efe:{target}",
    ]


PLAIN_V6 = ("::", "::1", "0:0:0:0:0:0:0:1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1")
MORE_V6 = ("2001:10::1", "2001:2::1", "3fff::1", "5f00::1", "100::1", "4000::1", "::2:0:0:1")

ADDRESSES = (*TARGETS, *PLAIN_V6, *MORE_V6, *(form for target in TARGETS for form in in_v6(target)))

HOSTS = (
    *(form for target in TARGETS for form in in_v4(target)),
    *(f"[{address}]" for address in ADDRESSES if ":" in address),
    "localhost",
    "LOCALHOST",
    "localhost.",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "[::1%25lo]",
    "[::1%lo]",
    "0",
    "0x",
)


def urls(port: int) -> list[str]:
    """Every spelling as a URL, and URLs that two parsers may read differently."""
    here = f"127.0.0.1:{port}"
    odd = [
        f"http://user@{here}/",
        f"http://user:secret@{here}/",
        f"http://example.com@{here}/",
        f"http://example.com:80@{here}/",
        f"http://example.com#@{here}@{here}/".replace("#", "%23"),
        f"http://{here}\\@example.com/",
        f"http://example.com\\@{here}/",
        f"http:\\\\{here}/",
        f"http:/{here}/",
        f"http:{here}/",
        f"http:///{here}/",
        f"http:////{here}/",
        f" http://{here}/",
        f"http://{here}/ ",
        f"http://{here}/\r\nX: y",
        f"http://{here}/\n",
        f"http://\t{here}/",
        f"ht\ntp://{here}/",
        f"http://127.0.0\t.1:{port}/",
        f"http://127.0.0.1\0.example.com:{port}/",
        f"http://127.0.0.1\u200b:{port}/",
        f"http://127.0.0.1\u00ad:{port}/",
        f"http://127.0.0.1／.example.com:{port}/",
        f"http://[{here}]/",
        f"http://[127.0.0.1]:{port}/",
        f"http://[v1.127.0.0.1]:{port}/",
        f"http://[::1]:{port}:{port}/",
        f"http://%31%32%37.0.0.1:{port}/",
        f"http://local%68ost:{port}/",
        f"ftp://{here}/",
        f"gopher://{here}/_GET",
        f"file://{here}/etc/passwd",
        "file:///etc/passwd",
        f"dict://{here}/info",
        f"data:text/plain,{here}",
        f"javascript://{here}/",
        f"ws://{here}/",
        f"unix:/{here}",
        f"jar:http://{here}/!/",
        "http://",
        "",
    ]
    return [*(f"http://{host}:{port}/" for host in HOSTS), *odd]
