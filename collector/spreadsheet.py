"""Escaping of CSV cells for spreadsheets: text that looks like a formula is not evaluated."""

import re
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 - taken for the narrow ones
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def is_formula(text: str) -> bool:
    """Return True if a spreadsheet would compute a text, in quotes or not; numbers are left alone."""
    return text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)


def safe_cell(text: str) -> str:
    """Put an apostrophe before a text that looks like a formula."""
    return f"'{text}" if is_formula(text) else text
