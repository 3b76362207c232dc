"""A chat model that plays a user, over chat completions, with retries and a time limit."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tracejury.connecting import a_client, backoff_s
from tracejury.conversation import ToolCall

_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 30.0
_SHOWN_CHARACTERS: Final = 300
_ANSWER_BYTES: Final = 1 << 20  # the judges' limit; a guess


class NoReply(Exception):
    """The model gave no usable answer."""


@dataclass(frozen=True)
class ChatReply:
    """Reply of a model: its text, its tool calls, and its usage."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class ChatQuestion:
    """Request to a model."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    seed: int | None = None


@dataclass(frozen=True)
class ChatCompletions:
    """A model behind `POST {base_url}/chat/completions`. Prices are USD for a million tokens."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    max_output_tokens: int | None = None
    timeout_s: float = 60.0
    attempts: int = 3
    input_usd: float | None = None
    output_usd: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def document(self) -> dict[str, Any]:
        """Return the settings, without the key."""
        settings = {"model": self.model, "baseUrl": self.base_url, "temperature": self.temperature}
        settings["maxOutputTokens"] = self.max_output_tokens
        return {name: value for name, value in settings.items() if value is not None}

    @property
    def is_priced(self) -> bool:
        """Return True if the price is known."""
        return self.input_usd is not None and self.output_usd is not None

    async def ask(self, question: ChatQuestion, before: Callable[[], None]) -> ChatReply:
        """Ask the model; `before` is called before each request, and may refuse it by raising.

        Raises:
            NoReply: the model does not answer, or its reply cannot be used.

        """
        body: dict[str, Any] = {"model": self.model, "messages": list(question.messages)}
        more: dict[str, Any] = {
            "temperature": self.temperature,
            "max_tokens": self.max_output_tokens,
            "seed": question.seed,
            "tools": list(question.tools) or None,
        }
        body |= {name: value for name, value in more.items() if value is not None}
        headers = {**self.headers, **({"authorization": f"Bearer {self.api_key}"} if self.api_key else {})}
        why = ""
        async with a_client(headers, self.timeout_s) as client:
            for attempt in range(self.attempts):
                before()
                wait_s = backoff_s(attempt + 1, first_s=_FIRST_WAIT_S)
                try:
                    response = await asyncio.wait_for(self._post(client, body), self.timeout_s)
                except asyncio.TimeoutError:
                    why = f"no answer within {self.timeout_s:g} s"
                except httpx.RequestError as error:
                    why = str(error) or type(error).__name__
                else:
                    if response.is_success:
                        return self._reply(response)
                    why = f"HTTP {response.status_code}: {response.text[:_SHOWN_CHARACTERS]}"
                    if response.status_code not in _AGAIN:
                        break
                    retry_after = response.headers.get("retry-after", "")
                    wait_s = min(float(retry_after), _LONGEST_WAIT_S) if retry_after.isdecimal() else wait_s
                if attempt + 1 < self.attempts:
                    await asyncio.sleep(wait_s)
        raise NoReply(f"{self.model} does not answer: {why}")

    async def _post(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> httpx.Response:
        """Send one request, and bound the size of the response, which httpx does not; `ask` bounds the total time."""
        content = bytearray()
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        async with client.stream("POST", url, content=json.dumps(body), headers=headers) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _ANSWER_BYTES:
                    raise NoReply(f"{self.model} answers with more than {_ANSWER_BYTES >> 20} MiB")
        kept = {name: value for name, value in response.headers.items() if name.lower() == "retry-after"}
        return httpx.Response(response.status_code, headers=kept, content=bytes(content))

    def _reply(self, response: httpx.Response) -> ChatReply:
        try:
            document = response.json()
            message = document["choices"][0]["message"]
            calls = tuple(ToolCall.of(each) for each in message.get("tool_calls") or ())
            text = message.get("content") or ""
            usage = document.get("usage") or {}
            tokens = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise NoReply(f"{self.model} answers with no chat completion: {type(error).__name__}: {error}") from None
        if not isinstance(text, str) or not (text.strip() or calls):
            raise NoReply(f"{self.model} answers with nothing")
        cost = None
        if self.input_usd is not None and self.output_usd is not None:
            cost = (tokens[0] * self.input_usd + tokens[1] * self.output_usd) / 1e6
        return ChatReply(text, calls, *tokens, cost)


@dataclass(frozen=True)
class UserTool:
    """An action that the simulated user can take, such as reading a bill; `parameters` is a JSON Schema."""

    name: str
    description: str
    function: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def document(self) -> dict[str, Any]:
        """Return the tool's definition for a model."""
        definition = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": definition}


def call_message(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the message in which a model calls tools."""
    documents = [
        {
            "id": call.id or f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
        }
        for number, call in enumerate(calls, start=1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": documents}


def result_messages(calls: Sequence[ToolCall], results: Sequence[str]) -> list[dict[str, Any]]:
    """Return the messages with the results of tools."""
    return [
        {"role": "tool", "tool_call_id": call.id or f"call_{number}", "content": result}
        for number, (call, result) in enumerate(zip(calls, results, strict=True), start=1)
    ]
