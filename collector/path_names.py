"""Names from outside as one segment of a URL's path: those of projects, sessions and services, whatever they contain.

ASGI servers decode a path, after which a slash of a name looks like one between two segments. So routes match a path
in which slashes of names stay encoded.
"""

import re
from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor

_DOTS: Final = re.compile(r"~*\.{1,2}")
"""Browsers, proxies and libraries resolve a segment `..`, encoded or not, before they send it; so it gets a `~`."""

_KEPT: Final = "tracejury.route_path"


def path_segment(name: str) -> str:
    """Encode a name as one segment of a path, which `route_path` and `name_in` decode to this name."""
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="*")  # `*` stands for all projects


def route_path(scope: MutableMapping[str, Any]) -> str:
    """Return the path of a request as routes match it: decoded, but for `/` and `%` inside of a segment."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw and b"~" not in raw:
        return str(scope["path"])
    kept: tuple[bytes, str] = scope.get(_KEPT, (b"", ""))
    if kept[0] != raw:  # called for every route
        kept = scope[_KEPT] = raw, "/".join(map(_segment, raw.decode("latin-1").split("/")))
    return kept[1]


def subject_of(path: str) -> str:
    """Return the subject of a path: its first segment, after `/api/v1` if it begins so."""
    return path.removeprefix("/api/v1").partition("/")[2].partition("/")[0]


def name_in(segment: str) -> str:
    """Return the name that a parameter of a matched path stands for."""
    return segment.replace("%2F", "/").replace("%25", "%")


def _segment(raw: str) -> str:
    decoded = unquote(raw)
    name = decoded[1:] if decoded.startswith("~") and _DOTS.fullmatch(decoded) else decoded
    return name.replace("%", "%25").replace("/", "%2F")


class _Name(Convertor[str]):
    """A path parameter that is a name. Slashes in it may be unquoted if the path stays unambiguous."""

    regex = r"(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return path_segment(value)


register_url_convertor("name", _Name())
