"""Truncation for judges: long texts lose their middle, then long lists do; a notice marks the cut."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from evaluators.model import Case

MOST_CHARACTERS: Final = 400_000
"""The most characters of all texts of a case together, some 100,000 tokens. A guess: models with 128,000 take that with
a prompt."""

_MARKS: Final = 60  # characters of the notice in the place of the cut
_LIMITS: Final = (100_000, 30_000, 10_000, 3_000, 1_000)
"""Limits per text: the first that makes all texts together fit is used, else the last. Guesses."""

_ITEMS: Final = (1_000, 300, 100, 30)
"""Limits per list, if cutting texts is not enough: the first that makes the case fit, else the last. Guesses."""


def cut_to_fit(case: Case) -> tuple[Case, int]:
    """Return the case with no more text than a judge is shown, and how many characters of it were left out."""
    parts = {name: getattr(case, name) for name in type(case).model_fields}
    lengths = [*chain.from_iterable(map(_lengths, parts.values()))]
    if sum(lengths) <= MOST_CHARACTERS and max(lengths, default=0) <= _LIMITS[0]:
        return case, 0
    fitting = (most for most in _LIMITS if sum(min(length, most) for length in lengths) <= MOST_CHARACTERS)
    most = next(fitting, _LIMITS[-1])
    cut = {name: _cut(values, most) for name, values in parts.items()}
    left_out = sum(length - most for length in lengths if length > most)
    kept = sum(_lengths(cut))
    if kept > MOST_CHARACTERS + _MARKS * len(lengths):
        shorter = ({name: _shortened(values, items) for name, values in cut.items()} for items in _ITEMS)
        tried = [(each, sum(_lengths(each))) for each in shorter]
        cut, length = next((each for each in tried if each[1] <= MOST_CHARACTERS), tried[-1])
        left_out += kept - length
    return case.model_copy(update=cut), left_out


def _lengths(value: object) -> Iterator[int]:
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _lengths(inner)


def _shortened(value: Any, most: int) -> Any:  # noqa: ANN401 - the user's value
    """Return a value whose lists keep `most` items, without the middle; in a list of messages, a notice replaces it."""
    match value:
        case Mapping():
            return {key: _shortened(inner, most) for key, inner in value.items()}
        case list() | tuple() if len(value) > most:
            head = most // 2
            notice = f"[… {len(value) - most} messages are left out here …]"
            are_messages = isinstance(value[head], Mapping) and "role" in value[head]
            mark = [{"role": "system", "content": notice}] if are_messages else []
            kept = [*value[:head], *mark, *value[head - most :]]
            return [_shortened(inner, most) for inner in kept]
        case list() | tuple():
            return [_shortened(inner, most) for inner in value]
        case _:
            return value


def _cut(value: Any, most: int) -> Any:  # noqa: ANN401 - the user's value
    match value:
        case str() if len(value) > most:
            head = most // 2
            notice = f"\n[… {len(value) - most} characters are left out here …]\n"
            return f"{value[:head]}{notice}{value[head - most :]}"
        case Mapping():
            return {key: _cut(inner, most) for key, inner in value.items()}
        case list() | tuple():
            return [_cut(inner, most) for inner in value]
        case _:
            return value
