"""Strategies that match retrieved items with expected ones."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from evaluators.configuration import Flag
from evaluators.errors import BadReply
from evaluators.judge_interface import Judge
from evaluators.model import text_of
from evaluators.prompting import fenced, prompt
from evaluators.values import same
from evaluators.wire import WireModel

PROMPT: Final = "item_match"
"""The prompt of `llmBased`."""

Type: TypeAlias = Literal[
    "byEquality", "caseInsensitive", "byField", "byFields", "byContainment", "anyOf", "allOf", "llmBased"
]
Matches: TypeAlias = Callable[[object, object, Judge | None], Awaitable[bool]]


class MatchingStrategy(WireModel):
    """Rule by which a retrieved item counts as an expected one."""

    type: Type = Field(default="byEquality", description="The rule.")
    field: str | None = Field(default=None, description="For byField: the key whose values are compared.")
    fields: tuple[str, ...] = Field(default=(), description="For byFields: the keys whose values are all compared.")
    normalize: Flag = Field(
        default=False, description="For byContainment: ignore case, and treat any white space as one blank."
    )
    strategies: tuple["AnyStrategy", ...] = Field(
        default=(), description="For anyOf and allOf: the combined strategies."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = _NEEDED.get(self.type)
        if needed and not getattr(self, needed):
            raise ValueError(f"{self.type} needs {needed}")
        unused = self.model_fields_set & {"field", "fields", "normalize", "strategies"} - {
            needed,
            _ALLOWED.get(self.type),
        }
        if unused:
            raise ValueError(f"{self.type} does not use {', '.join(sorted(unused))}")
        return self

    @property
    def asks(self) -> bool:
        """Return True if the strategy uses a judge."""
        return self.type == "llmBased" or any(strategy.asks for strategy in self.strategies)

    async def matches(self, retrieved: object, expected: object, judge: Judge | None) -> bool:
        """Return True if the retrieved item is the expected one."""
        match self.type:
            case "anyOf":
                for strategy in self.strategies:
                    if await strategy.matches(retrieved, expected, judge):
                        return True
                return False
            case "allOf":
                for strategy in self.strategies:
                    if not await strategy.matches(retrieved, expected, judge):
                        return False
                return True
            case "llmBased":
                return await _ask(retrieved, expected, judge)
            case _:
                return _RULES[self.type](self, retrieved, expected)


def _by_type(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


AnyStrategy: TypeAlias = Annotated[MatchingStrategy, BeforeValidator(_by_type)]
"""A strategy, or the name of its type."""


def _case_insensitive(_: MatchingStrategy, one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold()
    return same(one, other)


def _by_field(strategy: MatchingStrategy, one: object, other: object) -> bool:
    # An item that is not an object counts as the value of the field. Objects without the field are compared as wholes.
    values = [item.get(strategy.field) if isinstance(item, Mapping) else item for item in (one, other)]
    if values == [None, None]:
        return same(one, other)
    return same(*values)


def _by_fields(strategy: MatchingStrategy, one: object, other: object) -> bool:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return same(one, other)
    if not any(name in item for name in strategy.fields for item in (one, other)):
        return same(one, other)
    return all(same(one.get(name), other.get(name)) for name in strategy.fields)


def _by_containment(strategy: MatchingStrategy, one: object, other: object) -> bool:
    """Compare by containment. Blank text is in every text, so it matches only blank text."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return same(one, other)
    if strategy.normalize:
        one, other = (" ".join(text.casefold().split()) for text in (one, other))
    if not one.strip() or not other.strip():
        return one == other
    return one in other or other in one


async def _ask(retrieved: object, expected: object, judge: Judge | None) -> bool:
    """Ask the judge, unless the items are equal."""
    if same(retrieved, expected):
        return True
    if judge is None:
        raise RuntimeError("llmBased was built without a judge")
    question = prompt(PROMPT).render(fenced(found=text_of(retrieved), wanted=text_of(expected)))
    reply = await judge(question, {"match": {"type": "boolean"}})
    answer = _ANSWERS.get(str(reply.fields.get("match")).strip().lower())
    if answer is None:
        raise BadReply(f"the judge's match is neither true nor false: {reply.fields.get('match')!r}")
    return answer


_RULES: Final[Mapping[str, Callable[[MatchingStrategy, Any, Any], bool]]] = {
    "byEquality": lambda _, one, other: same(one, other),
    "caseInsensitive": _case_insensitive,
    "byField": _by_field,
    "byFields": _by_fields,
    "byContainment": _by_containment,
}
_NEEDED: Final[Mapping[str, str]] = {
    "byField": "field",
    "byFields": "fields",
    "anyOf": "strategies",
    "allOf": "strategies",
}
_ALLOWED: Final[Mapping[str, str]] = {"byContainment": "normalize"}
_ANSWERS: Final[Mapping[str, bool]] = {"true": True, "yes": True, "false": False, "no": False}
