"""Tool steps: tools that a run has to call, with their number or order, arguments and duration."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from evaluators.arguments import MODES, Members, members_of
from evaluators.captured import ARGUMENTS, NAMES_ONLY, require_part
from evaluators.case import actual_calls
from evaluators.configuration import Amount, Count, Lower, ReadsCalls, Share, Upper
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, NonBlank, ToolCall, text_of
from evaluators.pairing import longest_common
from evaluators.summary import summary_of
from evaluators.wire import WireModel

ArgsMatch: TypeAlias = Annotated[Literal["exact", "superset", "subset", "ignore"], Lower]
StepCalls: TypeAlias = "list[int | None]"
"""For each expected step the index of its call, or None."""


class ExpectedStep(WireModel):
    """One expected call."""

    tool: NonBlank
    args: Mapping[str, Any] | Literal["any"] | None = Field(
        default=None, description='The arguments; without any, and with "any", they are not checked.'
    )
    max_duration_ms: Amount | None = Field(default=None, description="The maximum duration of the call.")
    args_match: ArgsMatch | None = Field(default=None, description="The comparison of the arguments of this step.")


class ToolSteps(ReadsCalls):
    """The expected steps, and how strictly they are expected."""

    threshold: Share = Field(default=0.8, description="The score that passes, from 0 to 1.")
    mode: Annotated[Literal["any_order", "in_order", "exact"], Lower] = Field(
        description="any_order: each tool at least as often as minimums say; in_order: the expected steps in their "
        "order, other calls between them; exact: the expected steps in their places."
    )
    minimums: Mapping[str, Count] | None = Field(
        default=None, description="For any_order: the minimum number of calls of each tool."
    )
    expected: tuple[ExpectedStep, ...] | None = Field(default=None, description="For in_order and exact: the steps.")
    args_match: ArgsMatch = Field(
        default="superset",
        description="The comparison of arguments. superset: all expected ones must be present; exact: and no others; "
        "subset: only expected ones may be present; ignore: not compared.",
    )
    alignment: Annotated[Literal["CURSOR", "LONGEST"], Upper] = Field(
        default="CURSOR",
        description="For in_order. CURSOR: each step takes the next call of its tool, whatever its arguments; after a "
        "step without such a call nothing more is found. LONGEST: as many steps as possible are found.",
    )
    extra_calls: Annotated[Literal["FREE", "COUNT"], Upper] = Field(
        default="FREE", description="For exact: whether calls beyond the expected steps lower the score."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed, useless = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, needed) is None:
            raise ValueError(f"mode {self.mode} needs {needed}")
        if getattr(self, useless) is not None:
            raise ValueError(f"mode {self.mode} does not use {useless}")
        return self


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Hits and misses so far."""

    hits: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    extra: int = 0  # calls that count as misses

    def note(self, hit: bool, sentence: str) -> None:  # noqa: FBT001 - the two lists
        """Add a sentence to the hits or to the misses."""
        (self.hits if hit else self.misses).append(sentence)

    def assess(self, note: str = "") -> Assessment:
        """Return the share of hits."""
        whole = len(self.hits) + len(self.misses) + self.extra
        metadata = {"hits": self.hits, "misses": self.misses}
        if not whole:
            return Assessment(score=1.0, reason="No step is expected.", metadata=metadata, vacuous=True)
        misses = "; ".join(self.misses)
        reason = f"{len(self.hits)} of {whole} hold{': ' * bool(misses)}{misses}{note}."
        return Assessment(score=len(self.hits) / whole, reason=reason, metadata=metadata)


def tool_steps(settings: ToolSteps) -> Check:
    """Find the expected steps among the calls."""
    return pure(_any_order(settings) if settings.mode == "any_order" else _steps(settings))


def _any_order(settings: ToolSteps) -> Callable[[Case], Assessment]:
    minimums = settings.minimums or {}

    def check(case: Case) -> Assessment:
        counts = _counts(case, settings)
        tally = _Tally()
        for tool, least in minimums.items():
            count = counts.get(tool, 0)
            tally.note(count >= least, f"{tool} was called {count} times, at least {least} expected")
        return tally.assess()

    return check


def _counts(case: Case, settings: ToolSteps) -> Mapping[str, int]:
    if settings.tool_calls_key != "toolCalls":  # a trace summary counts only calls under `toolCalls`
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
        return Counter(call.name for call in calls)
    require_part(case, "toolCalls")
    return summary_of(case, settings.path).tool_calls_by_name or {}


def _steps(settings: ToolSteps) -> Callable[[Case], Assessment]:
    steps = settings.expected or ()
    reads = ARGUMENTS if any(isinstance(step.args, Mapping) for step in steps) else NAMES_ONLY
    find = _FINDERS[settings.mode if settings.mode == "exact" else settings.alignment]

    def check(case: Case) -> Assessment:
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=reads)
        tally = _Tally()
        for step, index in zip(steps, find(_Sequences.of(steps, calls, settings.args_match)), strict=True):
            tally.note(index is not None, f"{step.tool}{'' if index is not None else _missing(step, calls)}")
            if step.max_duration_ms is not None:
                _note_duration(tally, step, None if index is None else calls[index])
        extra = len(calls) - len(steps)
        if settings.mode == "in_order" or extra <= 0:
            return tally.assess()
        tally.extra = extra if settings.extra_calls == "COUNT" else 0
        counted = "" if tally.extra else ", which extraCalls FREE does not count"
        return tally.assess(f"; calls beyond the expected ones: {extra}{counted}")

    return check


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sequences:
    """The expected steps and the calls, ready to be compared."""

    tools: Sequence[str]
    names: Sequence[str]
    fits: Sequence[Callable[[Members], bool]]  # for each step, a predicate on the arguments of a call
    arguments: Sequence[Members]

    @classmethod
    def of(cls, steps: Sequence[ExpectedStep], calls: Sequence[ToolCall], default: ArgsMatch) -> "_Sequences":
        """Extract what is compared from the steps and the calls."""
        return cls(
            tools=[step.tool for step in steps],
            names=[call.name for call in calls],
            fits=[_fit(step, default) for step in steps],
            arguments=[members_of(call.arguments) for call in calls],
        )

    def match(self, step: int, call: int) -> bool:
        """Return True if the call fulfils the step."""
        return self.tools[step] == self.names[call] and self.fits[step](self.arguments[call])


def _fit(step: ExpectedStep, default: ArgsMatch) -> Callable[[Members], bool]:
    if not isinstance(step.args, Mapping):
        return lambda _: True
    rule, expected = MODES[_ARGS_MODES[step.args_match or default]], members_of(step.args)
    return lambda actual: rule(expected, actual)


def _by_position(both: _Sequences) -> StepCalls:
    calls = range(len(both.names))
    return [step if step in calls and both.match(step, step) else None for step in range(len(both.tools))]


def _by_cursor(both: _Sequences) -> StepCalls:
    """Give each step the next call of its tool, even if its arguments differ."""
    calls: StepCalls = []
    cursor = 0
    for step, tool in enumerate(both.tools):
        while cursor < len(both.names) and both.names[cursor] != tool:
            cursor += 1
        calls.append(cursor if cursor < len(both.names) and both.match(step, cursor) else None)
        cursor += 1
    return calls


def _by_longest(both: _Sequences) -> StepCalls:
    pairs = dict(longest_common(len(both.tools), len(both.names), both.match))
    return [pairs.get(step) for step in range(len(both.tools))]


def _missing(step: ExpectedStep, calls: Sequence[ToolCall]) -> str:
    if not any(call.name == step.tool for call in calls):
        return " was not called"
    return f" was not called in its place{f' with {text_of(step.args)}' if isinstance(step.args, Mapping) else ''}"


def _note_duration(tally: _Tally, step: ExpectedStep, call: ToolCall | None) -> None:
    """Check the limit of a step's duration: skip it if the duration is unknown, count a miss if the step is missing."""
    if call is None:
        tally.note(hit=False, sentence=f"{step.tool} could not keep to {step.max_duration_ms} ms")
    elif call.duration_ms is not None and step.max_duration_ms is not None:
        kept = call.duration_ms <= step.max_duration_ms
        tally.note(kept, f"{step.tool} took {call.duration_ms} ms, at most {step.max_duration_ms} expected")


_FINDERS: Final[Mapping[str, Callable[[_Sequences], StepCalls]]] = {
    "exact": _by_position,
    "CURSOR": _by_cursor,
    "LONGEST": _by_longest,
}
_ARGS_MODES: Final[Mapping[str, str]] = {
    "exact": "EXACT",
    "superset": "SUBSET",  # the same rule, named from the other side
    "subset": "SUPERSET",
    "ignore": "IGNORE",
}

KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_steps",
        title="Tool Steps",
        version=3,
        checks="The run called the tools that it has to call, in order, with their arguments, in time.",
        reads=("actualOutputs.toolCalls", "metadata.traceSummary"),
        configuration=ToolSteps,
        check=tool_steps,
    ),
)
