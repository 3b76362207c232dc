"""Tasks and judges in one line, from a function that calls a model, or a model of LangChain or pydantic-ai.

None of these libraries is imported: their replies, and the same as JSON, are read by their documented field names.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tracejury.agent_trace import AgentTrace
from tracejury.chat_model import ChatCompletions, ChatQuestion, ChatReply
from tracejury.dataset import Example
from tracejury.plain import plain
from tracejury.results import Measured
from tracejury.score import evaluator, named

_AI: Final = frozenset({"ai", "AIMessageChunk"})
_OF_LANGCHAIN: Final = frozenset({"messages", "intermediate_steps"})
_TOKENS: Final = (
    ("input_tokens", "prompt_tokens", "request_tokens"),
    ("output_tokens", "completion_tokens", "response_tokens"),
)

ModelTask = Callable[[Example], Awaitable[Measured]]
"""A task of an experiment."""


def simple_task(
    model: Any, output_key: str = "output", *, input_usd: float | None = None, output_usd: float | None = None
) -> ModelTask:
    """Return a task that puts the input of an example to a model.

    Its outputs are the text of the reply, and the item has the token counts of the reply; with prices in USD for a
    million tokens, also the cost. A model is one of these: a function or coroutine function that takes the prompt and
    returns a text or a reply of one of the libraries; an object of LangChain with `ainvoke`; an agent of pydantic-ai;
    `ChatCompletions`.

    Raises:
        TypeError: `model` is not a model.
    """
    ask = _asker(model)

    async def task(example: Example) -> Measured:
        reply = await ask(_prompt(example))
        return _measured(reply, {output_key: text_of(reply)}, input_usd, output_usd)

    return task


def rag_task(
    chain: Any,
    output_key: str = "output",
    context_key: str = "context",
    *,
    input_usd: float | None = None,
    output_usd: float | None = None,
) -> ModelTask:
    """Return a task that sends an example's input to a chain, and records the retrieved documents.

    A chain is a model that returns a reply and its documents: as a pair, or as a mapping with `answer` (or
    `result`) and `context` (or `source_documents`), as those of LangChain do.

    Raises:
        TypeError: `chain` cannot be called as a model.
    """
    ask = _asker(chain)

    async def task(example: Example) -> Measured:
        reply, documents = _answered(await ask(_prompt(example)))
        outputs = {output_key: text_of(reply), context_key: [_document(each) for each in documents]}
        return _measured(reply, outputs, input_usd, output_usd)

    return task


def as_judge(model: Any) -> Callable[[str], Awaitable[str]]:
    """Return a judge to put into the configuration of a built-in evaluator; it has the name of the model.

    Raises:
        TypeError: `model` is not a model.
    """
    ask = _asker(model)

    async def judge(prompt: str) -> str:
        return text_of(await ask(prompt))

    of = named(model)
    return evaluator(name=_name(model) or of.name, version=of.version)(judge)


def text_of(reply: Any) -> str:
    """Return the text of a reply.

    Raises:
        ValueError: the reply has no text.
    """
    text = reply if isinstance(reply, str) else reply.text if isinstance(reply, ChatReply) else _read(reply)
    if text is None:
        raise ValueError(f"the reply has no text: {type(reply).__name__}")
    return text


def _prompt(example: Example) -> str:
    return example.input if isinstance(example.input, str) else json.dumps(plain(example.input), ensure_ascii=False)


def _read(reply: Any) -> str | None:
    """Return the text of a reply, read as a reply of the library whose form it has."""
    if callable(getattr(reply, "all_messages", None)):
        trace = AgentTrace.from_pydantic_ai(reply)
    elif _get(reply, "type") in _AI or (isinstance(reply, Mapping) and reply.keys() & _OF_LANGCHAIN):
        trace = AgentTrace.from_langchain(reply)
    elif _get(reply, "type") == "message" and _get(reply, "stop_reason") is not None:
        trace = AgentTrace.from_anthropic(reply)
    else:
        trace = AgentTrace.from_openai(reply)
    return trace.final_response


def _measured(reply: Any, outputs: dict[str, Any], input_usd: float | None, output_usd: float | None) -> Measured:
    tokens_in, tokens_out = _tokens(reply)
    cost = None
    if None not in (tokens_in, tokens_out, input_usd, output_usd):
        cost = (tokens_in * input_usd + tokens_out * output_usd) / 1e6  # type: ignore[operator] # none is None
    return Measured(outputs, tokens_in, tokens_out, reply.cost_usd if isinstance(reply, ChatReply) else cost)


def _tokens(reply: Any) -> tuple[int | None, int | None]:
    """Return tokens in and out; Anthropic counts tokens from and to its cache separately."""
    if isinstance(reply, ChatReply):
        return reply.tokens_in, reply.tokens_out
    usage = _get(reply, "usage_metadata") or _get(reply, "usage")
    if callable(usage) and _first(usage, _TOKENS[0]) is None:  # of older versions of pydantic-ai
        usage = usage()
    counts = [_first(usage, names) for names in _TOKENS]
    cached = [_get(usage, f"cache_{what}_input_tokens") or 0 for what in ("creation", "read")]
    return (None if counts[0] is None else counts[0] + sum(cached)), counts[1]


def _first(usage: Any, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if isinstance(count := _get(usage, name), int)), None)


def _answered(returned: Any) -> tuple[Any, Any]:
    if isinstance(returned, tuple):
        reply, documents = returned
        return reply, documents
    if isinstance(returned, Mapping):
        answers = [returned[name] for name in ("answer", "result") if name in returned]
        retrieved = [returned[name] for name in ("context", "source_documents") if name in returned]
        if answers and retrieved:
            return answers[0], retrieved[0]
    raise ValueError("a chain returns (reply, documents), or a mapping with answer and context")


def _document(document: Any) -> Any:
    texts = (_get(document, name) for name in ("page_content", "text", "content"))
    return next((each for each in texts if isinstance(each, str)), plain(document))


def _asker(model: Any) -> Callable[[str], Awaitable[Any]]:
    """Return a coroutine function that asks a model; a plain function runs in a thread."""
    if isinstance(model, ChatCompletions):
        return lambda prompt: model.ask(ChatQuestion([{"role": "user", "content": prompt}]), lambda: None)
    for name in ("ainvoke", "run"):
        method: Any = getattr(model, name, None)
        if inspect.iscoroutinefunction(method):
            ask: Callable[[str], Awaitable[Any]] = method
            return ask
    if not callable(model):
        raise TypeError(f"a model is a function of a prompt, or has ainvoke or run, and not {type(model).__name__}")

    async def call(prompt: str) -> Any:
        reply = await asyncio.to_thread(model, prompt)
        return await reply if inspect.isawaitable(reply) else reply

    return call


def _name(model: Any) -> str | None:
    inner = getattr(model, "model", None)
    names = (getattr(model, "model_name", None), inner, getattr(inner, "model_name", None))
    return next((each for each in names if isinstance(each, str) and each), None)


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
