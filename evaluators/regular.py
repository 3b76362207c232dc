"""Regular expressions of clients, run by RE2 in time linear in the text."""

import functools
import re
from typing import Final

import re2

from storage.limit import Limit

_KEPT: Final = 512  # a guess
_LIMIT: Final = Limit(value=10_000, unit="characters", remedy="make several expressions of it")
_MOST_BYTES: Final = 8 << 20
"""The most bytes of memory for one expression, RE2's default."""

_SPELLED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
_NOT_IN_RE2: Final = (
    (("(?=", "(?!"), "a lookahead"),
    (("(?<=", "(?<!"), "a lookbehind"),
    (("(?>", "operator: ++", "operator: *+", "operator: ?+"), "an atomic group or possessive quantifier"),
)
_BACKREFERENCE: Final = re.compile(r"\\[1-9k]")
_INSTEAD: Final = (
    "not supported, since it can take for ever; write it without (the syntax is that of RE2), or use a code judge"
)


class UnusableRegex(ValueError):
    """A pattern that is not a regular expression, or that RE2 does not support; the message has the reason."""


class SafeRegex:
    """A regular expression that is searched without backtracking. Safe to share between threads."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Compile the pattern.

        Raises:
            UnusableRegex: the expression is invalid, too long or too costly.
        """
        if len(pattern) > _LIMIT.value:
            raise UnusableRegex(f"it has {len(pattern):,} characters, which is more than {_LIMIT}")
        options = re2.Options()
        options.log_errors = False
        options.case_sensitive = not ignore_case
        options.max_mem = _MOST_BYTES
        try:
            self._regex = re2.compile(_SPELLED.sub(_respelled, encodable(pattern)), options)
        except re2.error as error:
            message = error.args[0]
            raise UnusableRegex(
                _why(message.decode() if isinstance(message, bytes) else str(message), pattern)
            ) from None

    def search(self, text: str) -> str | None:
        """Return the first match; None if there is none."""
        match = self._regex.search(encodable(text))
        return None if match is None else str(match[0])


@functools.lru_cache(maxsize=_KEPT)
def safe_regex(pattern: str, *, ignore_case: bool = False) -> SafeRegex:
    """Compile an expression; those compiled last are kept.

    Raises:
        UnusableRegex: the expression is invalid, too long or too costly.
    """
    return SafeRegex(pattern, ignore_case=ignore_case)


def encodable(text: str) -> str:
    """Replace each half of a surrogate pair by a question mark, because UTF-8 cannot carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _respelled(escape: re.Match[str]) -> str:
    r"""Convert Python's and ECMAScript's syntax to RE2's: \u0041, \Z, and needless escapes."""
    digits, text = escape[1] or escape[2], escape[0]
    if digits:
        return rf"\x{{{digits}}}"
    if text == r"\Z":
        return r"\z"
    return text if text.isascii() else text[1:]


def _why(message: str, pattern: str) -> str:
    for marks, name in _NOT_IN_RE2:
        if any(mark in message for mark in marks):
            return f"{message}: {name} is {_INSTEAD}"
    if _BACKREFERENCE.search(message) or (message.endswith("(?P") and "(?P=" in pattern):
        return f"{message}: a backreference is {_INSTEAD}"
    return message
