"""Answers of a connection's model to items, through the server's playground, which counts the calls in budgets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from collector.experiment_runner.answers import NoTaskAnswer, filled
from collector.mcp.application import ApplicationResult, Store, answered
from collector.mcp.client import Api
from collector.mcp.errors import ServerBusy, ToolRefused
from evaluators.model import text_of

_AT_ONCE: Final = 3
"""Calls at once: three of the four places in the playground, so that one is left for a person."""

_PATIENCE_S: Final = 180.0  # the server itself stops waiting after 120
_BUSY_TRIES: Final = 60
_LONGEST_PAUSE_S: Final = 10.0
"""Guesses."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringModel:
    """A model over a connection, and the prompt of each item."""

    connection: str
    model: str | None  # None: that of the connection
    system: str | None
    prompt: str | None  # None: the input of the item, or all its inputs as JSON
    temperature: float | None
    max_output_tokens: int | None
    project: str

    async def check(self, api: Api) -> str:
        """Have the server check that the model can be called, and return its name; nothing is spent.

        Raises:
            ToolRefused: the model cannot be called; the message says what to do.
        """
        response = await api.post("/api/v1/playground", self._body([_message("user", "?")]) | {"priceOnly": True})
        (answer,) = response["answers"]
        if answer["failure"] is not None:
            raise ToolRefused(f"the model cannot be called: {answer['failure']['message']}")
        return str(answer["model"])

    async def over(self, api: Api, items: Sequence[Document], store: Store) -> None:
        """Call the model for each item, some at a time, and store each answer when it arrives.

        Raises:
            ToolRefused: the server does not store an answer; no more calls are made.
        """
        await answered(items, partial(self._answer, api), store, at_once=_AT_ONCE)

    async def _answer(self, api: Api, item: Document) -> ApplicationResult:
        try:
            messages = self._messages(item)
        except NoTaskAnswer as error:
            return ApplicationResult(outputs={}, error=f"prompt: {error}", error_kind=error.kind)
        try:
            (answer,) = (await _called(api, self._body(messages)))["answers"]
        except ToolRefused as refused:  # of this item; a refusal of the whole run would recur when the answer is stored
            return ApplicationResult(outputs={}, error=str(refused), error_kind="refused")
        usage, failure = answer["usage"] or {}, answer["failure"]
        measured = {
            "tokensIn": usage.get("inputTokens"),
            "tokensOut": usage.get("outputTokens"),
            "costUsd": usage.get("costUsd"),
            "latencyMs": usage.get("latencyMs"),
        }
        text = _text_of(answer["message"])
        if failure is None and answer["isCutOff"]:
            failure = {"kind": "truncated", "message": "the answer ran out of tokens: allow for more output"}
        elif failure is None and text is None:
            failure = {"kind": "bad_output", "message": "the answer has no text"}
        return ApplicationResult(
            outputs={} if text is None else {"output": text},
            error=None if failure is None else failure["message"],
            error_kind=None if failure is None else failure["kind"],
            trace_id=answer["traceId"],
            measured={name: value for name, value in measured.items() if value is not None},
        )

    def _messages(self, item: Document) -> list[Document]:
        inputs = item["inputs"]
        fields = {"id": item["id"], "inputs": inputs, "metadata": item["metadata"]}
        content = inputs.get("input", inputs) if self.prompt is None else filled(self.prompt, fields)
        system = [] if self.system is None else [_message("system", text_of(filled(self.system, fields)))]
        return [*system, _message("user", text_of(content))]

    def _body(self, messages: Sequence[Document]) -> Document:
        wish = {"connectionId": self.connection, "model": self.model}
        body = {
            "messages": messages,
            "answers": [{name: value for name, value in wish.items() if value is not None}],
            "temperature": self.temperature,
            "maxOutputTokens": self.max_output_tokens,
            "project": self.project,
            "retries": True,
        }
        return {name: value for name, value in body.items() if value is not None}


async def _called(api: Api, body: Document) -> Any:  # noqa: ANN401 - JSON
    """Call the model as soon as the playground has a free place."""
    for _ in range(_BUSY_TRIES):
        try:
            return await api.post("/api/v1/playground", body, patience_s=_PATIENCE_S)
        except ServerBusy as busy:
            await asyncio.sleep(min(busy.retry_after_s, _LONGEST_PAUSE_S))
    return await api.post("/api/v1/playground", body, patience_s=_PATIENCE_S)


def _message(role: str, text: str) -> Document:
    return {"role": role, "content": text}


def _text_of(message: Document | None) -> str | None:
    parts = [] if message is None else message["parts"]
    return "\n\n".join(part["content"] for part in parts if part.get("type") == "text") or None
