"""Plans of redaction: values to redact by the key of an attribute, by a pattern, or by a preset."""

from dataclasses import dataclass
from typing import Final

from rules.regex import glob, regex

REDACTED: Final = "[redacted]"
"""The replacement of a redacted value."""

# Texts are often JSON, in which a line that begins with an address is `\nann@example.org`. Redaction must not leave
# half of an escape there, so each preset also matches, as its first group, what stands before the value, and that group
# is put back. `_BEFORE` serves the presets whose values begin with letters that could belong to an escape.
_BEFORE: Final = r"(^|[^\pL\pN\\]|\\[nrtbf\"/\\]|\\u[0-9A-Fa-f]{4})"
_FOUR: Final = r"[ -]?[0-9]{4}"

PRESETS: Final[dict[str, str]] = {
    "email": (
        r"(^|[^\pL\pN._%+\\-]|\\[nrtbf\"/\\])"
        r"(?:[\pL\pN._%+-]|\\u[0-9A-Fa-f]{4})+"
        r"@(?:[\pL\pN-]|\\u[0-9A-Fa-f]{4})+(?:\.(?:[\pL\pN-]|\\u[0-9A-Fa-f]{4})+)+"
    ),
    # Without the check digit, which no regular expression computes: any number that looks like a card is redacted.
    "card": (
        r"(^|[^0-9])(?:"
        rf"4[0-9]{{3}}{_FOUR}{_FOUR}{_FOUR}(?:[0-9]{{3}})?"
        rf"|(?:5[1-5][0-9]{{2}}|2[2-7][0-9]{{2}}|6011|65[0-9]{{2}}){_FOUR}{_FOUR}{_FOUR}"
        r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})"
    ),
    "key": (
        rf"{_BEFORE}(?:"
        r"sk-[A-Za-z0-9_-]{16,}|tj_[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}"
        r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
        r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}"
        r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
        r"|(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?)"
    ),
}
"""Shapes by name, for RE2. The first group of each is the text before the value, and stays."""


_SIGNS: Final = {"email": "@"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A pattern of RE2, and the replacement for its matches."""

    pattern: str
    by: str
    sign: str = ""  # a substring of every match: searched first, at a tenth of the cost of the pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionPlan:
    """Keys and patterns to redact."""

    keys: tuple[str, ...]  # RE2 patterns that match whole attribute keys
    replacements: tuple[Replacement, ...]

    def __bool__(self) -> bool:
        """Return True if there is something to redact."""
        return bool(self.keys or self.replacements)


def make_plan(*, keys: tuple[str, ...], patterns: tuple[str, ...], presets: tuple[str, ...]) -> RedactionPlan:
    """Make a plan of attribute keys (`*` and `?` as in globs), regular expressions as in rules, and presets.

    Raises:
        BadPattern: a pattern is not valid.
        ValueError: a preset does not exist.
    """
    unknown = [name for name in presets if name not in PRESETS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a preset; there are: {', '.join(PRESETS)}")
    shapes = [Replacement(pattern=PRESETS[name], by=rf"\1{REDACTED}", sign=_SIGNS.get(name, "")) for name in presets]
    own = [Replacement(pattern=regex(text).re2, by=REDACTED) for text in patterns]
    return RedactionPlan(keys=tuple(glob(text).re2 for text in keys), replacements=(*shapes, *own))
