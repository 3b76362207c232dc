"""Tasks: a command that reads a case and prints an answer, or an HTTP endpoint that gets a case and answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from collector.experiment_runner.answers import ApplicationAnswer, NoTaskAnswer, answer_of, filled
from collector.plan_file import BadPlan, ProgramPlan
from evaluators.process import JudgeProgram, ProgramFailed, run
from rules.marker import RUN
from storage.limit import Limit

MAX_ANSWER_BYTES: Final = 4 << 20
_ANSWER: Final = Limit(value=MAX_ANSWER_BYTES, unit="bytes", remedy="let the task answer with less")
"""Limit of one answer: as large as an item may be."""

_SHOWN_CHARACTERS: Final = 500
_KINDS: Final = {"timeout": "timeout", "bad_output": "bad_output"}

_RESOURCE: Final = "OTEL_RESOURCE_ATTRIBUTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPlace:
    """The parent of a task's spans: a span of a trace, and a run."""

    trace_id: str
    span_id: str
    run_id: str

    @property
    def mark(self) -> str:
        """Return the attribute that marks spans of the run, as `key=value`."""
        return f"{RUN}={self.run_id}"

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the W3C Trace Context and Baggage headers of the parent span and the run."""
        return {"traceparent": f"00-{self.trace_id}-{self.span_id}-01", "baggage": self.mark}


Task: TypeAlias = Callable[[Mapping[str, Any], ConversationPlace], Awaitable[ApplicationAnswer]]
"""Function from a case and the parent of its spans to an answer. Raises `NoTaskAnswer`."""


@asynccontextmanager
async def task_of(plan: ProgramPlan, folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Task]:
    """Open the task of a plan; commands start in the folder, with the environment and what the plan adds.

    Raises:
        BadPlan: a header names a variable that is not set.
    """
    if plan.command is not None:
        yield _command(plan, folder, environment)
        return
    missing = sorted(name for name in plan.headers_from.values() if name not in environment)
    if missing:
        raise BadPlan(f"task.headersFrom: {', '.join(missing)} is not set in the environment")
    headers = {**plan.headers, **{name: environment[of] for name, of in plan.headers_from.items()}}
    async with httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False) as client:  # noqa: S113 - below
        yield _endpoint(plan, client)


def _command(plan: ProgramPlan, folder: Path, environment: Mapping[str, str]) -> Task:
    async def ask(case: Mapping[str, Any], place: ConversationPlace) -> ApplicationAnswer:
        variables = {**environment, **plan.environment}
        marks = ",".join(filter(None, (variables.get(_RESOURCE), place.mark)))
        carried = {name.upper(): value for name, value in place.headers.items()} | {_RESOURCE: marks}
        program = JudgeProgram(
            command=list(plan.command or ()),
            environment=variables | carried,
            folder=folder,
            time_limit_s=plan.timeout_seconds,
            output_bytes=MAX_ANSWER_BYTES,
        )
        try:
            return answer_of(await run(program, json.dumps(case).encode()), plan)
        except ProgramFailed as error:
            raise NoTaskAnswer(_KINDS.get(error.kind, "task"), str(error)) from None

    return ask


def _endpoint(plan: ProgramPlan, client: httpx.AsyncClient) -> Task:
    async def ask(case: Mapping[str, Any], place: ConversationPlace) -> ApplicationAnswer:
        body = case if plan.body is None else filled(plan.body, case)
        try:
            content, response = await _answered(client, plan, body, place)
        except httpx.RequestError as error:
            raise NoTaskAnswer("task", f"{type(error).__name__}: {error}") from None
        if not response.is_success:
            shown = content[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
            raise NoTaskAnswer("task", f"HTTP {response.status_code}: {shown}")
        return answer_of(content, plan)

    return ask


async def _answered(
    client: httpx.AsyncClient, plan: ProgramPlan, body: object, place: ConversationPlace
) -> tuple[bytes, httpx.Response]:
    """Request an answer of an endpoint, with a time limit and a size limit."""
    content = bytearray()
    try:
        async with (
            asyncio.timeout(plan.timeout_seconds),
            client.stream("POST", str(plan.url), json=body, headers=place.headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise NoTaskAnswer("bad_output", f"the answer is longer than {_ANSWER}")
    except TimeoutError:
        raise NoTaskAnswer("timeout", f"not finished within {plan.timeout_seconds:g} s") from None
    return bytes(content), response
