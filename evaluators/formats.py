"""The formats that a JSON Schema may name: those of the library, and IRIs by our own mapping to URIs.

The library's own check of IRIs compiles a grammar when it is imported, which takes 1.3 s of CPU: a third of what a
server needs to start, once more in each of its processes.
"""

import functools
import re
from typing import Final, Literal
from urllib.parse import quote

from jsonschema import FormatChecker
from jsonschema.protocols import Validator
from rfc3986_validator import validate_rfc3986

_PLANES: Final = "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
_IN_IRIS: Final = re.compile(f"[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}\U000e1000-\U000efffd]+")
"""`ucschar` of RFC 3987: what an IRI may hold where a URI holds letters."""

_IN_QUERIES: Final = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]+")
"""`iprivate` of RFC 3987, allowed in a query only."""

_QUERY: Final = re.compile(r"(?<=\?)[^#]*")


@functools.cache
def formats_of(kind: type[Validator]) -> FormatChecker:
    """The formats that a draft of JSON Schema knows."""
    checker = FormatChecker(())
    checker.checkers = dict(kind.FORMAT_CHECKER.checkers)
    if "idn-hostname" in checker.checkers:  # the drafts with names in all scripts are those with IRIs
        checker.checks("iri")(functools.partial(is_iri, rule="URI"))
        checker.checks("iri-reference")(functools.partial(is_iri, rule="URI_reference"))
    return checker


def is_iri(value: object, *, rule: Literal["URI", "URI_reference"]) -> bool:
    """Whether a text is an IRI, or a reference to one; what is no text is of every format.

    By the mapping of RFC 3987, 3.1: each character that only IRIs have is percent-encoded as UTF-8, and the outcome is
    a URI of RFC 3986 exactly if the text was an IRI.
    """
    if not isinstance(value, str):
        return True
    path, mark, fragment = value.partition("#")
    path = _QUERY.sub(lambda query: _IN_QUERIES.sub(_encoded, query[0]), path, count=1)
    return bool(validate_rfc3986(_IN_IRIS.sub(_encoded, f"{path}{mark}{fragment}"), rule=rule))


def _encoded(characters: re.Match[str]) -> str:
    return quote(characters[0], safe="")
