"""Questions to judges: fenced data, a schema of the answer, and one answer for each numbered item."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evaluators.errors import BadConfiguration, BadReply
from evaluators.judge_interface import Judge
from evaluators.prompting import prompt
from evaluators.wire import explain, number_of
from storage.records import MAX_COUNT, JsonValue

Result = TypeVar("Result")
Shape = TypeVar("Shape", bound="JudgeAnswer")
Row = TypeVar("Row", bound="Numbered")

FLAG: JsonValue = {"type": "boolean"}
NUMBER: JsonValue = {"type": "number"}
TEXT: JsonValue = {"type": "string"}
REASON: JsonValue = {"type": "string", "default": ""}
"""A requested reason may be missing: the judgement is valid without it."""


def _text(value: object) -> object:
    return "" if value is None else value


Number: TypeAlias = Annotated[
    float, Field(ge=-MAX_COUNT, le=MAX_COUNT, allow_inf_nan=False), BeforeValidator(number_of)
]
"""A number, or a text that is one; true is none."""

Reason: TypeAlias = Annotated[str, BeforeValidator(_text)]


class JudgeAnswer(BaseModel):
    """Answer of a judge. Additional keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Numbered(JudgeAnswer):
    """Answer of a judge about one of several numbered things."""

    index: Annotated[int, BeforeValidator(number_of)]
    reason: Reason = ""

    def judgement(self) -> object:
        """Return the part on which two answers about the same thing must agree."""
        return self.model_dump(exclude={"reason"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestion(Generic[Shape]):
    """A prompt by its name, and the schemas of the answer's fields."""

    prompt: str
    fields: Mapping[str, JsonValue]
    shape: type[Shape]

    async def ask(self, judge: Judge | None, **values: str) -> Shape:
        """Return the judge's answer.

        Raises:
            EvaluationError: there is no judge or no answer, or the answer has another shape.

        """
        if judge is None:
            raise BadConfiguration(f"the question {self.prompt} needs a judge, and none is configured")
        reply = await judge(prompt(self.prompt).render(values), self.fields)
        try:
            return self.shape.model_validate(dict(reply.fields))
        except ValidationError as error:
            raise BadReply(explain(error, root="the answer")) from None


def rows(**fields: JsonValue) -> JsonValue:
    """Return the schema of a list of numbered answers with these fields."""
    properties: dict[str, JsonValue] = {"index": {"type": "integer"}, "reason": TEXT, **fields}
    item: JsonValue = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return {"type": "array", "items": item}


def choice(*values: str) -> JsonValue:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": [*values]}


async def answer_each(
    count: int, ask: Callable[[str], Awaitable[Sequence[Row]]], things: str
) -> tuple[dict[int, Row], list[int]]:
    """Return an answer for each number from 1 to `count`, and the answered numbers that were not requested.

    `ask` is called with the requested numbers, in words; once more for those left out, or answered in two ways.

    Raises:
        BadReply: some are still not answered; the message names them.
    """
    answers: dict[int, Row] = {}
    missing, unmatched = [*range(1, count + 1)], []
    for _ in range(2):
        answered, strangers = _by_number(await ask(_in_words(missing, count)), missing)
        answers |= answered
        unmatched += strangers
        missing = [number for number in missing if number not in answers]
        if not missing:
            return dict(sorted(answers.items())), unmatched
    numbers = ", ".join(map(str, missing))
    raise BadReply(f"the judge left out {len(missing)} of {count} {things}, also on the second request: {numbers}")


async def together(awaitables: Sequence[Awaitable[Result]]) -> list[Result]:
    """Await all, and return the results in order; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in awaitables]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _by_number(answers: Sequence[Row], expected: Sequence[int]) -> tuple[dict[int, Row], list[int]]:
    by_number: dict[int, Row] = {}
    disputed: set[int] = set()
    for answer in answers:
        earlier = by_number.get(answer.index)
        if earlier is not None and earlier.judgement() != answer.judgement():
            disputed.add(answer.index)
        by_number[answer.index] = answer
    strangers = [number for number in by_number if number not in expected]
    return {
        number: by_number[number] for number in by_number if number in expected and number not in disputed
    }, strangers


def _in_words(numbers: Sequence[int], count: int) -> str:
    if len(numbers) == count:
        return "1" if count == 1 else f"1 to {count}"
    return "only " + ", ".join(map(str, numbers))
