"""Allowed webhook destinations: refused URLs and addresses, and lists that permit private ones."""

import ipaddress
from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.addresses import AddressPolicy
from evaluators.chat.urls import BadUrl, read_url

NOTHING = AddressPolicy()
EVERYTHING = AddressPolicy(["0.0.0.0/0", "::/0", "hooks.internal"])
SOME = AddressPolicy(["10.0.0.0/8", "Hooks.Internal.", "127.0.0.1", "::1", "fd12::/16"])

NEVER = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd00:ec2::254%1",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::a9fe:a9fe",
]
PRIVATE = ["127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fc00::1",
           "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::", "::7f00:1", "198.18.0.1", "192.0.2.1",
           "fec0::1", "5f00::1", "::ffff:1.1.1.1", "2002:101:101::", "2606:4700::5efe:a00:1"]  # fmt: skip
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::101:101", "2606:4700::5efe:101:101"]

REGISTRIES = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.0.0/29", "192.0.0.8/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.88.99.0/24"),
    *("192.88.99.2/32", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4"),
    *("240.0.0.0/4", "255.255.255.255/32", "::1/128", "::/128", "::ffff:0:0/96", "64:ff9b:1::/48", "100::/64"),
    *("100:0:0:1::/64", "2001::/23", "2001::/32", "2001:2::/48", "2001:db8::/32", "2001:10::/28", "2002::/16"),
    *("3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/96", "4000::/3", "8000::/1"),
)
"""What IANA's registries of special addresses (IPv4 and IPv6, of 2025) do not mark as globally reachable, multicast,
what was special once (6to4, site-local, compatible), and space of IPv6 that is assigned to no network."""


def spellings(address: ipaddress.IPv4Address) -> dict[str, ipaddress.IPv6Address]:
    """Return the IPv6 addresses that tunnels, translators or the system map to an IPv4 address, by spelling."""
    number = int(address)
    network = 0x2606_4700 << 96
    return {
        spelling: ipaddress.IPv6Address(value)
        for spelling, value in {
            "mapped": 0xFFFF << 32 | number,
            "compatible": number,
            "6to4": 0x2002 << 112 | number << 80,
            "Teredo, the server": 0x2001_0000 << 96 | number << 64,
            "Teredo, the client": 0x2001_0000 << 96 | 0x0101_0101 << 64 | number ^ 0xFFFF_FFFF,
            "NAT64": 0x64_FF9B << 96 | number,
            "local NAT64": 0x64_FF9B_0001 << 80 | number,
            "local NAT64, RFC 6052": 0x64_FF9B_0001 << 80 | number >> 16 << 64 | (number & 0xFFFF) << 40,
            "ISATAP": network | 0x5EFE << 32 | number,
            "ISATAP, unique": network | 0x200_5EFE << 32 | number,
        }.items()
    }


def refusal(policy: AddressPolicy, address: str, url: str = "https://hooks.example/x") -> str | None:
    """Return the reason why an address is refused."""
    return policy.refusal(httpx.URL(url), ipaddress.ip_address(address))


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_refused_whatever_is_listed(address: str) -> None:
    """Link-local, metadata, unspecified, multicast and reserved addresses are not receivers, in any spelling."""
    for policy in (NOTHING, SOME, EVERYTHING):
        for url in ("https://hooks.example/x", "http://hooks.internal/x"):
            assert "where nothing is ever sent" in str(refusal(policy, address, url))


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_have_to_be_listed(address: str) -> None:
    """A private address is refused, unless its network or the name that stands for it is listed."""
    assert "not listed in webhook_private_hosts" in str(refusal(NOTHING, address))
    assert refusal(EVERYTHING, address) is None
    assert refusal(SOME, address, "https://hooks.internal/x") is None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_take_https_only(address: str) -> None:
    """A public address needs no list and is never sent anything in the clear."""
    for policy in (NOTHING, SOME, EVERYTHING):
        assert refusal(policy, address) is None
        assert "only https://" in str(refusal(policy, address, "http://hooks.internal/x"))


def test_lists_are_exact() -> None:
    """Listed addresses are allowed, and their neighbours are not."""
    assert [refusal(SOME, address) is None for address in ("10.255.0.1", "11.0.0.1", "127.0.0.1", "127.0.0.2")] == [
        True,
        True,  # public
        True,
        False,
    ]
    assert refusal(SOME, "192.168.0.1", "https://HOOKS.internal/") is None
    assert refusal(SOME, "192.168.0.1", "https://x.hooks.internal/") is not None
    assert refusal(SOME, "192.168.0.1", "https://hooks.internal.evil.example/") is not None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "https:///x",
        "https://",
        "https://user@hooks.example/",
        "https://user:password@hooks.example/",
        "https://hooks.example/#fragment",
        "https://hooks.example:0/",
        "https://hooks.example:65536/",
        "https://hooks.example:x/",
        "https://hooks.example/ x",
        "https://hooks.example/\r\nX: y",
        "https://bücher.example/",
        "https://[::1/",
        "https://" + "x" * 2048,
        "http://hooks.example/",
        "http://93.184.215.14/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1%25eth0]/",
        "https://xn--/x",
        "https://xn--a/",
        "https://xn--|`:0",
        "https://xn--wn1y/",
        "https://a..b/",
        "https://" + "x" * 64 + ".example/",
        "https://ex%61mple.com/",
        "https://hooks_{x}.example/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.0.1./",
        "https://127.0.0.0x1/",
        "https://[::127.0.0.1]/",
        "https://[2002:7f00:1::]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[2606:4700::5efe:127.0.0.1]/",
        "https://[fec0::1]/",
    ],
)
def test_urls_that_lead_nowhere_good_are_refused_at_once(url: str) -> None:
    """A URL that nothing may be sent to whatever its name stands for is refused when it is written down."""
    with pytest.raises(BadUrl):
        NOTHING.check(url)


@pytest.mark.parametrize("url", ["https://hooks.example/x?y=z", "https://hooks.example:8443", "https://1.1.1.1/"])
def test_public_urls_are_taken(url: str) -> None:
    """Any https URL of a name, or of a public address, is taken."""
    assert str(NOTHING.check(url)) == str(httpx.URL(url))


@pytest.mark.parametrize("text", ["", "a b", "http://x", "10.0.0.0/33", "x/8", "-x", "*", "a..b"])
def test_a_list_with_something_else_in_it_is_refused(text: str) -> None:
    """An entry that is neither a name nor an address nor a network is an error, and not ignored."""
    with pytest.raises(ValueError, match="neither a host name"):
        AddressPolicy([text])


@given(st.ip_addresses())
def test_whatever_is_not_global_is_refused(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Without a list, an address that Python calls private, link-local or reserved is never good."""
    url = httpx.URL("https://hooks.example/")
    if not address.is_global or address.is_multicast or address.is_link_local:
        assert NOTHING.refusal(url, address) is not None


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_as_itself(inner: ipaddress.IPv4Address) -> None:
    """Wrapping an IPv4 address into any form of IPv6 makes nothing good that was not."""
    number = int(inner)
    wrapped = [(0xFFFF << 32) | number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)]
    url = httpx.URL("https://hooks.example/")
    if NOTHING.refusal(url, inner) is not None:
        assert None not in [NOTHING.refusal(url, ipaddress.IPv6Address(each)) for each in wrapped]


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    """Whatever is written down as a URL, the answer is a URL or a refusal."""
    for candidate in (text, f"https://{text}", f"http://[{text}]/"):
        try:
            EVERYTHING.check(candidate)
        except BadUrl:
            continue


@given(st.sampled_from(REGISTRIES), st.data())
def test_what_the_registries_do_not_mark_as_global_is_refused(text: str, data: st.DataObject) -> None:
    """Without a list, no address of a network that IANA does not mark as globally reachable is good."""
    network = ipaddress.ip_network(text)
    address = network[data.draw(st.integers(0, network.num_addresses - 1))]
    assert NOTHING.refusal(httpx.URL("https://hooks.example/"), address) is not None


@given(st.sampled_from([each for each in REGISTRIES if ":" not in each]), st.data())
def test_ipv4_within_ipv6_is_refused_in_every_spelling(text: str, data: st.DataObject) -> None:
    """Without a list, an address of IPv6 that stands for one of IPv4 that is not public is not good either."""
    network = ipaddress.IPv4Network(text)
    inner = network[data.draw(st.integers(0, network.num_addresses - 1))]
    url = httpx.URL("https://hooks.example/")
    good = [spelling for spelling, each in spellings(inner).items() if NOTHING.refusal(url, each) is None]
    assert good == []


@pytest.mark.parametrize("spelling", list(spellings(ipaddress.IPv4Address("169.254.169.254"))))
def test_metadata_is_refused_in_every_spelling_whatever_is_listed(spelling: str) -> None:
    """Where clouds hand out credentials nothing is sent, also if every network is listed."""
    for text in ("169.254.169.254", "100.100.100.200", "168.63.129.16"):
        address = spellings(ipaddress.IPv4Address(text))[spelling]
        assert "where nothing is ever sent" in str(refusal(EVERYTHING, str(address)))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12), st.sampled_from(["", "xn--"]))
def test_any_text_is_a_url_or_is_refused_as_none(text: str, prefix: str) -> None:
    """Whatever is after the scheme, it is read, or refused with the one error that is answered as a bad request."""
    for read in (NOTHING.check, EVERYTHING.check, read_url):
        with suppress(BadUrl):
            read(f"https://{prefix}{text}")
