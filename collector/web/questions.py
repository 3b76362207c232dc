"""Questions in words: the input of a judged application, and the criteria of its judge."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from collector.api.base.context import Context
from evaluators.registry import KINDS
from rules.rule import Rule
from storage.records import JsonValue

_CHARACTERS: Final = 300
_NAMES: Final = ("name", "criteria", "description")


def criteria_of(rule: Rule) -> str:
    """Return what a rule's evaluator checks, in words: its judge's criteria, else what its kind checks."""
    written = [*_criteria_texts(rule.configuration.get("criteria")), *_criteria_texts(rule.configuration.get("scores"))]
    kind = KINDS.get(rule.evaluator)
    return "; ".join(written) or ("" if kind is None else kind.checks)


def criteria_of_revision(context: Context, revision: int) -> str:
    """Return the criteria of a rule's revision; the rule may have been edited or deleted since."""
    active = context.rules.revision(revision)
    return "" if active is None else criteria_of(active.rule)


def questions_of(context: Context, trace_ids: Sequence[str], tenant: str | None) -> Mapping[str, str]:
    """Return the input of each trace, shortened, if it is stored. `tenant` None: of all tenants."""
    return context.store.listing.questions(trace_ids, tenant=tenant, characters=_CHARACTERS)


def _criteria_texts(value: JsonValue) -> Iterator[str]:
    """Yield criteria as text: a text, names, or objects that describe them."""
    match value:
        case str() if value.strip():
            yield " ".join(value.split())
        case list() | tuple():
            for each in value:
                yield from _criteria_texts(each)
        case dict():
            texts = [str(value[key]) for key in _NAMES if value.get(key)]
            if texts:
                yield ": ".join(texts)
        case _:
            pass  # a value without text
