"""`code_judge`: a program of the user judges; JSON on its standard input, JSON on its standard output."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import Field, Strict, field_validator, model_validator

from evaluators.captured import NAMES_ONLY, NOT_CAPTURED, CallContent, require_captured, require_part
from evaluators.case import actual_calls, conversation_at, enter, expected_value, find
from evaluators.configuration import Configuration, Flag, Share
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.model import Case, ToolCall, text_of
from evaluators.process import JudgeProgram, ProgramFailed, run
from evaluators.summary import summary_of
from evaluators.wire import parse_json

ENVIRONMENT: Final[Mapping[str, str]] = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The environment of a program, independent of the server's; the configuration may add to it or override it."""

_SHOWN_CHARACTERS = 200


ReadPart: TypeAlias = Literal[
    "input", "output", "toolCalls", "arguments", "result", "trajectory", "context", "reasoningSteps", "tools"
]
"""A part of a case that a program may use: `arguments` and `result` are those of every call."""


class CodeJudge(Configuration):
    """The program that judges, and its bounds."""

    threshold: Share = Field(default=0.8, description="The score that passes.")
    script: tuple[Annotated[str, Field(min_length=1)], ...] | str = Field(
        description="The program and its arguments, as a list; one text for a shell if `shell` is true."
    )
    shell: Flag = Field(default=False, description="Give the script, a text, to a shell.")
    cwd: str | None = Field(default=None, description="The folder in which the program starts; by default the current.")
    environment: Mapping[str, str] = Field(
        default={}, description="Environment variables besides PATH and LANG; no others are passed on."
    )
    time_limit_seconds: Annotated[float, Strict(), Field(gt=0, le=3600)] = Field(
        default=30.0, description="After this long the program and all that it started are killed."
    )
    max_output_bytes: Annotated[int, Strict(), Field(ge=1, le=64 << 20)] = Field(
        default=1 << 20, description="The program may print this much."
    )
    criteria: str | None = Field(default=None, description="Criteria of cases without metadata.criteria.")
    reads: tuple[ReadPart, ...] = Field(
        default=("input", "output"),
        description="The parts of a case that the program needs; a case is skipped if one was not captured. A list of "
        f"{', '.join(get_args(ReadPart))}; with an empty list, every case is judged.",
    )
    config: Mapping[str, Any] | None = Field(default=None, description="Passed to the program unchanged.")

    @field_validator("script", mode="before")
    @classmethod
    def _not_empty(cls, script: object) -> object:
        if not script:
            raise ValueError("must name a program")
        return script

    @model_validator(mode="after")
    def _shell_takes_text(self) -> Self:
        if isinstance(self.script, str) is not self.shell:
            needed = "a text, since shell is true" if self.shell else "a list: the program, then its arguments"
            raise ValueError(f"script must be {needed}")
        return self


def code_judge(settings: CodeJudge) -> Check:
    """Run the program on the case."""
    program = JudgeProgram(
        command=settings.script,
        environment={**ENVIRONMENT, **settings.environment},
        folder=None if settings.cwd is None else Path(settings.cwd),
        time_limit_s=settings.time_limit_seconds,
        output_bytes=settings.max_output_bytes,
    )

    async def check(case: Case, _judge: Judge | None) -> Assessment:
        _require(case, settings.reads)
        # The round trip turns our own shapes into JSON; \u escapes keep what UTF-8 cannot carry.
        payload = json.dumps(json.loads(text_of(payload_of(case, settings))), indent=2)
        return _read(await run(program, payload.encode()))

    return check


def _require(case: Case, reads: Collection[ReadPart]) -> None:
    """Refuse a case if its trace did not record a part that the program uses."""
    content: list[CallContent] = [one for one in ("arguments", "result") if one in reads]
    for one in reads:
        if one not in ("arguments", "result"):
            require_part(case, one)
    if content:
        require_part(case, "toolCalls")
        if find(case, "actual_outputs", "toolCalls") is not None:
            require_captured(actual_calls(case, reads=NAMES_ONLY), content)


def payload_of(case: Case, settings: CodeJudge) -> dict[str, Any]:
    """Return the program's input. Our keys are in snake_case; the user's keys stay as they are."""
    # None if they were not captured, and the program does not use them.
    question, answer = find(case, "inputs", "input"), find(case, "actual_outputs", "output")
    answer = None if answer is None else enter(answer, settings.path, "actualOutputs.output")
    expected = expected_value(case, "output", settings.path)
    case_criteria = find(case, "metadata", "criteria")
    return {
        "question": None if question is None else text_of(question),
        "criteria": settings.criteria if case_criteria is None else case_criteria,
        "expected_output": _as_messages("assistant", expected),
        "reference_answer": None if expected is None else text_of(expected),
        "candidate_answer": None if answer is None else text_of(answer),
        "output_messages": _output_messages(case, answer),
        "guideline_files": [],
        "input_files": [],
        "input": _as_messages("user", find(case, "inputs", "input")),
        "not_captured": find(case, "metadata", NOT_CAPTURED, ()),
        "trace_summary": _summary(case),
        "file_changes": None,
        "workspace_path": None,
        "config": settings.config,
        "test_case": case,
    }


def _read(stdout: bytes) -> Assessment:
    text = stdout.decode("utf-8", "replace").strip()
    try:
        answer = parse_json(text)
    except ValueError as error:
        raise ProgramFailed(
            "bad_output",
            f"standard output must be one JSON object, with logs on standard error; {error}: {_shown(text)}",
        ) from None
    if not isinstance(answer, dict):
        raise ProgramFailed("bad_output", f"standard output must be one JSON object: {_shown(text)}")
    score = answer.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ProgramFailed("bad_output", f"the score must be a number: {_shown(text)}")
    if not 0 <= score <= 1:  # which NaN is not, either
        raise ProgramFailed("bad_output", f"the score must be from 0 to 1: {_shown(text)}")
    hits, misses = _lines(answer.get("hits")), _lines(answer.get("misses"))
    reasoning = answer.get("reasoning")
    reason = reasoning if isinstance(reasoning, str) and reasoning.strip() else _reason_of(hits, misses)
    metadata: dict[str, Any] = {"hits": hits, "misses": misses}
    if isinstance(answer.get("details"), dict):
        metadata["details"] = answer["details"]
    return Assessment(score=float(score), reason=reason, metadata=metadata)


def _lines(value: object) -> list[str]:
    return [line for line in value if isinstance(line, str) and line.strip()] if isinstance(value, list) else []


def _reason_of(hits: Sequence[str], misses: Sequence[str]) -> str:
    parts = [f"{name}: {'; '.join(lines)}" for name, lines in (("Hits", hits), ("Misses", misses)) if lines]
    return ". ".join(parts) or "The program gave no reason."


def _as_messages(role: str, value: object) -> list[Any]:
    """Return a value as the list of messages that the contract has; one that is such a list stays as it is."""
    if value is None:
        return []
    if isinstance(value, list | tuple) and all(isinstance(one, Mapping) and "role" in one for one in value):
        return list(value)
    return [{"role": role, "content": value if isinstance(value, str) else text_of(value)}]


def _output_messages(case: Case, answer: object) -> list[dict[str, Any]] | None:
    """Return the agent's messages and calls: of its conversation, else one message with its answer and its calls."""
    calls = () if find(case, "actual_outputs", "toolCalls") is None else actual_calls(case, reads=NAMES_ONLY)
    if find(case, "actual_outputs", "trajectory") is not None:
        return [
            {"role": message.role, "content": message.content}
            | ({"tool_calls": [_call(call) for call in message.tool_calls]} if message.tool_calls else {})
            for message in conversation_at(case, "trajectory").with_calls(calls).messages
        ]
    if answer is None and not calls:
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "" if answer is None else text_of(answer)}
    return [message | ({"tool_calls": [_call(call) for call in calls]} if calls else {})]


def _call(call: ToolCall) -> dict[str, Any]:
    document: dict[str, Any] = {"tool": call.name, "input": call.arguments}
    if call.metadata.get(NOT_CAPTURED):
        document["not_captured"] = call.metadata[NOT_CAPTURED]
    if call.result is not None:
        document["output"] = call.result
    if call.id is not None:
        document["id"] = call.id
    if call.start_time is not None:
        document["timestamp"] = document["start_time"] = call.start_time.isoformat()
        if call.duration_ms is not None:
            document["end_time"] = (call.start_time + timedelta(milliseconds=call.duration_ms)).isoformat()
    return document if call.duration_ms is None else document | {"duration_ms": call.duration_ms}


def _summary(case: Case) -> dict[str, Any] | None:
    """Return the run in numbers; None if nothing is known of it."""
    try:
        summary = summary_of(case).model_dump(mode="json", exclude_none=True)
    except BadCase:
        return None
    if "tool_names" not in summary and "tool_calls_by_name" in summary:
        summary["tool_names"] = sorted(summary["tool_calls_by_name"])
    if find(case, "actual_outputs", "toolCalls") is not None:
        failed = [call for call in actual_calls(case, reads=NAMES_ONLY) if call.metadata.get("isError") is True]
        summary.setdefault("error_count", len(failed))
    return summary


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="code_judge",
        title="Code Judge",
        version=5,
        checks="What a program of your own checks.",
        reads=(
            "actualOutputs.output",
            "inputs.input",
            "expectedOutputs.output",
            "actualOutputs.toolCalls",
            "actualOutputs.trajectory",
            "metadata.criteria",
            "metadata.traceSummary",
        ),
        configuration=CodeJudge,
        check=code_judge,
    ),
)
