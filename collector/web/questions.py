"""What was asked: of the application whose answer is judged, and of whatever judges it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from collector.api.base.context import Context
from evaluators.registry import KINDS
from rules.rule import Rule
from storage.records import JsonValue

_CHARACTERS: Final = 300
_NAMES: Final = ("name", "criteria", "description")


def criteria_of(rule: Rule) -> str:
    """What a rule's evaluator looks at, in words: the criteria of its judge, else what its kind checks."""
    written = [*_criteria_texts(rule.configuration.get("criteria")), *_criteria_texts(rule.configuration.get("scores"))]
    kind = KINDS.get(rule.evaluator)
    return "; ".join(written) or ("" if kind is None else kind.checks)


def criteria_of_revision(here: Context, revision: int) -> str:
    """Return the criteria of a rule's revision; the rule may have been edited or deleted since."""
    active = here.rules.revision(revision)
    return "" if active is None else criteria_of(active.rule)


def questions_of(here: Context, trace_ids: Sequence[str], tenant: str | None) -> Mapping[str, str]:
    """What each of these traces was asked, in short, as far as it is stored: those of a tenant; None for all."""
    return here.listing.questions(trace_ids, tenant=tenant, characters=_CHARACTERS)


def _criteria_texts(value: JsonValue) -> Iterator[str]:
    """Criteria as they are written: a text, names, or objects that describe them."""
    match value:
        case str() if value.strip():
            yield " ".join(value.split())
        case list() | tuple():
            for each in value:
                yield from _criteria_texts(each)
        case dict():
            told = [str(value[key]) for key in _NAMES if value.get(key)]
            if told:
                yield ": ".join(told)
        case _:
            pass  # what has no words
