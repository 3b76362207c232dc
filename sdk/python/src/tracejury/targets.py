"""Applications in any language: an HTTP endpoint, or a command that is started for each turn."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx

from tracejury.connecting import a_client
from tracejury.conversation import ConversationTrajectory, Message, ToolCall
from tracejury.marking import SIMULATED, carried, current_session
from tracejury.plain import plain
from tracejury.simulator import TargetReply

MAX_ANSWER_BYTES: Final = 4 << 20

_PLACE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SHOWN_CHARACTERS: Final = 500
_RESOURCE: Final = "OTEL_RESOURCE_ATTRIBUTES"


class TargetFailed(Exception):
    """The application gave no valid answer."""


@dataclass(frozen=True)
class AnswerPlaces:
    """JSON pointers (RFC 6901) to the parts of an answer."""

    output: str | None = None
    tool_calls: str | None = None
    state: str | None = None
    tokens_in: str | None = None
    tokens_out: str | None = None
    cost_usd: str | None = None

    def reply(self, content: bytes) -> TargetReply:
        """Read the answer from a response.

        Without `output`, a JSON object is read by Tracejury's names (`/output`, `/toolCalls` …), and any other text is
        the output itself.

        Raises:
            TargetFailed: the output is missing, or a tool call is not valid.
        """
        content_text = content.decode("utf-8", "replace")
        try:
            document = json.loads(content_text)
        except (ValueError, RecursionError):
            document = None
        if self.output is None and not isinstance(document, dict):
            return TargetReply(Message.assistant(content_text.strip()))
        own = {name: pointer for name, pointer in vars(self).items() if pointer is not None}
        places = self if self.output is not None else replace(_OURS, **own)
        text = _at(places.output, document)
        if not isinstance(text, str):
            raise TargetFailed(f"the answer has no text at {places.output}")
        try:
            calls = [ToolCall.of(each) for each in _at(places.tool_calls, document) or []]
        except (ValueError, TypeError) as error:
            raise TargetFailed(f"tool calls of the answer: {error}") from None
        return TargetReply(
            Message.assistant(text, calls),
            _at(places.state, document),
            _count(_at(places.tokens_in, document)),
            _count(_at(places.tokens_out, document)),
            _amount(_at(places.cost_usd, document)),
        )


_OURS: Final = AnswerPlaces("/output", "/toolCalls", "/state", "/tokensIn", "/tokensOut", "/costUsd")


@dataclass(frozen=True)
class HttpTarget:
    """Application behind an HTTP endpoint, called once for each turn: the call sends the conversation so far.

    `body` is JSON with the placeholders `{{messages}}`, `{{message}}` (the last message of the user), `{{sessionId}}`
    and `{{scenario}}`. Without `body`, an object with these four keys is sent. Each request has the headers
    `traceparent` and `baggage`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Any = None
    places: AnswerPlaces = field(default_factory=AnswerPlaces)
    timeout_s: float = 60.0

    async def __call__(self, trajectory: ConversationTrajectory) -> TargetReply:
        """Send the conversation and return the answer.

        Raises:
            TargetFailed: the target gave no valid answer.

        """
        conversation = conversation_input(trajectory)
        body = conversation if self.body is None else filled(self.body, conversation)
        content = bytearray()
        headers = {**self.headers, **carried(), "content-type": "application/json"}
        text = json.dumps(plain(body), ensure_ascii=False).encode()
        try:
            async with (
                a_client(headers, self.timeout_s) as client,
                client.stream("POST", self.url, content=text) as response,
            ):
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise TargetFailed(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        except httpx.HTTPError as error:
            raise TargetFailed(f"{type(error).__name__}: {error}") from None
        if not response.is_success:
            shown = bytes(content[:_SHOWN_CHARACTERS]).decode("utf-8", "replace")
            raise TargetFailed(f"HTTP {response.status_code}: {shown}")
        return self.places.reply(bytes(content))


@dataclass(frozen=True)
class CommandTarget:
    """A command that is started for each turn, reads the conversation as JSON, and prints its answer.

    The variables `TRACEPARENT`, `BAGGAGE` and `OTEL_RESOURCE_ATTRIBUTES` mark its spans as simulated.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str | Path | None = None
    places: AnswerPlaces = field(default_factory=AnswerPlaces)
    timeout_s: float = 60.0

    async def __call__(self, trajectory: ConversationTrajectory) -> TargetReply:
        """Run the command and return the answer that it prints.

        Raises:
            TargetFailed: the command failed, printed too much, or gave no valid answer.

        """
        return self.places.reply(await self.printed(conversation_input(trajectory)))

    async def printed(self, document: Any) -> bytes:
        """Run the command with a JSON input, and return its output.

        Raises:
            TargetFailed: the command failed, or printed too much.

        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,  # so that what the command starts is killed with it
            )
        except OSError as error:
            raise TargetFailed(f"{self.command[0]} cannot be started: {error.strerror}") from None
        text = json.dumps(plain(document), ensure_ascii=False).encode()
        try:
            printed, complaints = await asyncio.wait_for(process.communicate(text), self.timeout_s)
        except asyncio.TimeoutError:
            raise TargetFailed(f"{self.command[0]} is not finished within {self.timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter if no process is left
                    os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
                await process.wait()
        if process.returncode:
            shown = complaints[-_SHOWN_CHARACTERS:].decode("utf-8", "replace").strip()
            raise TargetFailed(f"{self.command[0]} ended with {process.returncode}: {shown}")
        if len(printed) > MAX_ANSWER_BYTES:
            raise TargetFailed(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        return printed

    def _environment(self) -> dict[str, str]:
        variables = {**os.environ, **self.environment}
        headers = carried()
        variables |= {name.upper(): value for name, value in headers.items()}
        marks = [variables[_RESOURCE]] if variables.get(_RESOURCE) else []
        return variables | {_RESOURCE: ",".join([*marks, f"{SIMULATED}=true"])}


def conversation_input(trajectory: ConversationTrajectory) -> dict[str, Any]:
    """Return the conversation as JSON for an application."""
    last = trajectory.last_user_message
    return {
        "sessionId": current_session(),
        "scenario": trajectory.scenario,
        "message": "" if last is None else last.content,
        "messages": [{"role": each.role, "content": each.content} for each in trajectory.messages],
    }


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill the placeholders of a JSON value.

    A string that consists of one placeholder becomes the placeholder's value. Within a longer string, strings are
    inserted as they are, and other values as JSON.

    Raises:
        TargetFailed: the template names an unknown placeholder.
    """
    if isinstance(template, Mapping):
        return {name: filled(each, values) for name, each in template.items()}
    if isinstance(template, list):
        return [filled(each, values) for each in template]
    if not isinstance(template, str):
        return template
    unknown = [name for name in _PLACE.findall(template) if name not in values]
    if unknown:
        raise TargetFailed(f"there is no {{{{{unknown[0]}}}}}; there are: {', '.join(values)}")
    whole = _PLACE.fullmatch(template.strip())
    return values[whole[1]] if whole else _PLACE.sub(lambda place: _text(values[place[1]]), template)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def _at(pointer: str | None, document: Any) -> Any:
    """Return the value at a pointer, or None."""
    value = document if pointer else None
    for step in (pointer or "").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _amount(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
