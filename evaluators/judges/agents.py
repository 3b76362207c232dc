"""Judges of agents: their tasks, the arguments of their calls, their plans."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field, model_validator

from evaluators.captured import ARGUMENTS, EVERYTHING, require_part
from evaluators.case import actual_calls, actual_value, enter, find, get, primary_text
from evaluators.configuration import Configuration, Flag, Key, Parts, ReadsCalls, Share, required
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import FLAG, REASON, JudgeAnswer, JudgeQuestion, Numbered, Reason, answer_each, rows
from evaluators.judges.relevance import at_one_where_strict
from evaluators.model import Case, ToolCall, text_of
from evaluators.prompting import fenced, numbered, pretty
from evaluators.text import shown

_LISTED = 5
"""Maximum number of items that a reason quotes; the metadata has all. A guess."""


class CompletionAnswer(Numbered):
    """Completion of one task."""

    completed: bool


class Tasks(JudgeAnswer):
    """Completion of each task."""

    tasks: tuple[CompletionAnswer, ...]


class Grounded(Numbered):
    """Grounding of the arguments of one call."""

    grounded: bool


class Calls(JudgeAnswer):
    """Grounding of each call."""

    calls: tuple[Grounded, ...]


class PlanIsGood(JudgeAnswer):
    """Quality of a plan: coherent, and leading to its goal."""

    quality: bool
    reason: Reason = ""


class PlanWasFollowed(JudgeAnswer):
    """Adherence of the calls to the plan."""

    plan_followed: bool
    reason: Reason = ""


TASKS: Final = JudgeQuestion(prompt="task_completion", fields={"tasks": rows(completed=FLAG)}, shape=Tasks)
CALLS: Final = JudgeQuestion(prompt="tool_argument_hallucination", fields={"calls": rows(grounded=FLAG)}, shape=Calls)
QUALITY: Final = JudgeQuestion(prompt="plan_quality", fields={"reason": REASON, "quality": FLAG}, shape=PlanIsGood)
ADHERENCE: Final = JudgeQuestion(
    prompt="plan_adherence", fields={"reason": REASON, "plan_followed": FLAG}, shape=PlanWasFollowed
)


class TaskCompletion(Configuration):
    """Settings of `task_completion`."""

    threshold: Share = Field(default=0.5, description="The share of completed tasks that passes.")
    evaluation_params: Parts = required("INPUT")
    tasks_key: Key = Field(default="tasks", description="The key of metadata under which the tasks are.")
    constraints_key: Key = Field(
        default="constraints", description="The key of metadata under which the constraints are."
    )


class ToolArgumentHallucination(ReadsCalls):
    """Settings of `tool_argument_hallucination`."""

    threshold: Share = Field(default=0.8, description="The share of grounded calls that passes.")
    evaluation_params: Parts = required("INPUT")


class PlanSource(ReadsCalls):
    """Settings of the plan's source and of the checks that pass."""

    threshold: Share = Field(default=0.5, description="The share of passed checks that passes.")
    reasoning_steps_key: Key = Field(
        default="reasoningSteps", description="The key of actualOutputs under which the plan is."
    )
    strict_mode: Flag = Field(
        default=False,
        description="Pass only when every check passes: with the default threshold one of two is enough.",
    )

    @model_validator(mode="before")
    @classmethod
    def _strict_is_one(cls, document: object) -> object:
        return at_one_where_strict(document)


def task_completion(settings: TaskCompletion) -> Check:
    """Compute the share of the given tasks that the judge finds completed; 1 without tasks."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        tasks = _texts(get(case, "metadata", settings.tasks_key), f"metadata.{settings.tasks_key}")
        output = actual_value(case, "output", settings.path)
        constraints = find(case, "metadata", settings.constraints_key)
        if not tasks:
            return Assessment(score=1.0, reason="There are no tasks to complete.", vacuous=True)
        data = fenced(
            input=primary_text(case, "INPUT") or "(not given)",
            output="(none; the input is all there is)" if output is None else pretty(output),
            tasks=numbered([{"task": task} for task in tasks]),
            constraints="(none)" if constraints is None else pretty(constraints),
        )

        async def ask(which: str) -> Sequence[CompletionAnswer]:
            return (await TASKS.ask(judge, which=which, **data)).tasks

        answers, unmatched = await answer_each(len(tasks), ask, "tasks")
        return _share(tasks, answers, lambda one: one.completed, ("tasks", "task", "completed"), unmatched)

    return check


def tool_argument_hallucination(settings: ToolArgumentHallucination) -> Check:
    """Compute the share of calls with arguments from the input or earlier results; 1 without calls."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        calls = actual_calls(case, key=settings.tool_calls_key, reads=EVERYTHING)
        question = enter(primary_text(case, "INPUT"), settings.path, "inputs.input")
        if not calls:
            return Assessment(score=1.0, reason="No tool was called.", vacuous=True)
        data = fenced(input=question, calls=numbered([_call(call) for call in calls]))

        async def ask(which: str) -> Sequence[Grounded]:
            return (await CALLS.ask(judge, which=which, **data)).calls

        answers, unmatched = await answer_each(len(calls), ask, "calls")
        names = [call.name for call in calls]
        return _share(names, answers, lambda one: one.grounded, ("calls", "tool", "grounded"), unmatched)

    return check


def plan_quality(settings: PlanSource) -> Check:
    """Check that there is a plan, and that the judge finds it good; 1 if the plan is empty."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        plan = _plan(get(case, "actual_outputs", settings.reasoning_steps_key), settings)
        if not plan:
            return Assessment(score=1.0, reason="There is no plan to judge.", vacuous=True)
        if judge is None:
            return _checks({"non_empty_reasoning": True, "quality": None}, "")
        data = fenced(task=primary_text(case, "INPUT") or "(not given)", plan=_steps(plan))
        answer = await QUALITY.ask(judge, **data)
        return _checks({"non_empty_reasoning": True, "quality": answer.quality}, answer.reason)

    return check


def plan_adherence(settings: PlanSource) -> Check:
    """Check that there is a plan, and that the calls carry it out; 1 without calls."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        calls = actual_calls(case, key=settings.tool_calls_key, reads=ARGUMENTS)
        steps = find(case, "actual_outputs", settings.reasoning_steps_key)
        if steps is None:
            require_part(case, settings.reasoning_steps_key)
        plan = [] if steps is None else _plan(steps, settings)
        if not calls:
            return Assessment(score=1.0, reason="No tool was called.", vacuous=True)
        if judge is None:
            return _checks({"plan_present": bool(plan), "plan_followed": None}, "")
        done = numbered([{"tool": call.name, "arguments": call.arguments} for call in calls])
        answer = await ADHERENCE.ask(judge, **fenced(plan=_steps(plan) if plan else "(no plan)", calls=done))
        return _checks({"plan_present": bool(plan), "plan_followed": answer.plan_followed}, answer.reason)

    return check


def _share(
    things: Sequence[str],
    answers: Mapping[int, Any],
    passes: Callable[[Any], bool],
    words: tuple[str, str, str],
    unmatched: Sequence[int],
) -> Assessment:
    """Return the share of things that passed; `words` name the things, one of them, and passing."""
    plural, one, passing = words
    table = [
        {one: thing, passing: passes(answers[number]), "reason": answers[number].reason}
        for number, thing in enumerate(things, start=1)
    ]
    passed = sum(bool(row[passing]) for row in table)
    reason = f"{passed} of {len(things)} {plural} are {passing}."
    missed = [row for row in table if not row[passing]]
    if missed:
        listed = "; ".join(f"{shown(row[one])} ({row['reason']})" for row in missed[:_LISTED])
        more = f"; and {len(missed) - _LISTED} more" if len(missed) > _LISTED else ""
        reason = f"{reason} Not {passing}: {listed}{more}."
    metadata: dict[str, Any] = {plural: table} | ({"unmatched": [*unmatched]} if unmatched else {})
    return Assessment(score=passed / len(things), reason=reason, metadata=metadata)


def _checks(checks: Mapping[str, bool | None], reason: str) -> Assessment:
    """Return the share of passed checks among those that ran; None marks a check skipped for lack of a judge."""
    ran = {name: passed for name, passed in checks.items() if passed is not None}
    passed = [name for name, is_passed in ran.items() if is_passed]
    skipped = [name for name in checks if name not in ran]
    text = f"{len(passed)} of {len(ran)} checks passed"
    failed = [name for name in ran if name not in passed]
    text += f"; failed: {', '.join(failed)}" if failed else ""
    text += f"; skipped without a judge: {', '.join(skipped)}" if skipped else ""
    metadata = {"checks": {name: "skipped" if check is None else check for name, check in checks.items()}}
    return Assessment(score=len(passed) / len(ran), reason=f"{text}. {reason}".strip(), metadata=metadata)


def _texts(value: object, place: str) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadCase(f"{place}: must be a list")
    return [text_of(item) for item in value]


def _steps(plan: Sequence[str]) -> str:
    return numbered([{"step": step} for step in plan])


def _call(call: ToolCall) -> dict[str, Any]:
    document = {"tool": call.name, "arguments": call.arguments}
    return document if call.result is None else {**document, "result": call.result}


def _plan(value: object, settings: PlanSource) -> list[str]:
    place = f"actualOutputs.{settings.reasoning_steps_key}"
    return _texts(enter(value, settings.path, place), place)


def _kind(check: Callable[[Any], Check], configuration: type[BaseModel], **options: Any) -> EvaluatorKind[Any]:
    """Return a kind that is named like its check."""
    name = check.__name__
    title = name.replace("_", " ").title()
    return EvaluatorKind(
        name=name, title=title, version=1, prompts=(name,), configuration=configuration, check=check, **options
    )


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    _kind(
        task_completion,
        TaskCompletion,
        checks="The share of the given tasks that were completed.",
        reads=("actualOutputs.output", "inputs.input", "metadata.tasks", "metadata.constraints"),
        judge=lambda _: "always",
    ),
    _kind(
        tool_argument_hallucination,
        ToolArgumentHallucination,
        checks="The fraction of tool calls whose arguments come from the input or from earlier results.",
        reads=("inputs.input", "actualOutputs.toolCalls"),
        judge=lambda _: "always",
    ),
    _kind(
        plan_quality,
        PlanSource,
        checks="Is the agent's plan coherent, and does it lead to the goal.",
        reads=("actualOutputs.reasoningSteps", "inputs.input"),
        judge=lambda _: "optional",
    ),
    _kind(
        plan_adherence,
        PlanSource,
        checks="Did the agent's tool calls carry out its plan.",
        reads=("actualOutputs.reasoningSteps", "actualOutputs.toolCalls"),
        judge=lambda _: "optional",
    ),
)
