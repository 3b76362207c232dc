"""Packet filter of the kernel (BPF) for a listening socket: some addresses cannot establish connections."""

import ctypes
import socket
import struct
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

_ATTACH: Final = 26  # SO_ATTACH_FILTER of Linux, which Python does not name
_LOAD, _IS_EQUAL, _RETURN = 0x20, 0x15, 0x06  # a word at an offset; a jump; how many bytes are let through
_PROTOCOL: Final = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL: IPv4 or IPv6
_NETWORK: Final = 0xFFF00000  # SKF_NET_OFF: where its header begins
_IPV4: Final = 0x0800
_SOURCE_4, _SOURCE_6 = 12, 8
_ALL: Final = 0xFFFFFFFF


def refuse(listening: socket.socket, addresses: Collection[str]) -> None:
    """Drop packets from these addresses, at the socket and at the connections that it accepts from now on.

    Raises:
        OSError: the kernel takes no filter.
    """
    parsed = [ip_address(address.partition("%")[0]) for address in addresses]
    in_4 = [line for each in parsed if isinstance(each, IPv4Address) for line in _drops(each.packed, _SOURCE_4)]
    in_6 = [line for each in parsed if isinstance(each, IPv6Address) for line in _drops(each.packed, _SOURCE_6)]
    passes = (_RETURN, 0, 0, _ALL)
    # Jumps reach 255 lines at most, so the part for IPv6 is reached through a jump without a condition (0x05).
    lines = [
        (_LOAD, 0, 0, _PROTOCOL),
        (_IS_EQUAL, 1, 0, _IPV4),
        (0x05, 0, 0, len(in_4) + 1),
        *in_4,
        passes,
        *in_6,
        passes,
    ]
    code = b"".join(struct.pack("HBBI", *line) for line in lines)
    held = ctypes.create_string_buffer(code)
    listening.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("HL", len(lines), ctypes.addressof(held)))


def _drops(packed: bytes, offset: int) -> list[tuple[int, int, int, int]]:
    """Return instructions that drop packets from this address, and pass others to the next instruction."""
    words = struct.unpack(f">{len(packed) // 4}I", packed)
    lines = []
    for number, word in enumerate(words):
        after = 2 * (len(words) - 1 - number) + 1  # lines that remain, with the one that drops
        lines += [(_LOAD, 0, 0, _NETWORK + offset + 4 * number), (_IS_EQUAL, 0, after, word)]
    return [*lines, (_RETURN, 0, 0, 0)]
