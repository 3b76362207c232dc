"""The run of an agent as evaluators read it, from results of OpenAI, Anthropic, LangChain and pydantic-ai.

None of these libraries is imported: their objects, and the same as JSON, are read by their documented field names.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tracejury.conversation import ConversationTrajectory, ToolCall
from tracejury.plain import plain

_SCHEMAS: Final = (
    "inputSchema",
    "input_schema",
    "parameters",
    "params_json_schema",
    "parameters_json_schema",
    "args_schema",
)
_TEXTS: Final = frozenset({"text", "output_text", "refusal"})
_OUTPUT_TOOL: Final = "final_result"  # by which pydantic-ai has a model give structured output


@dataclass(frozen=True)
class ToolDefinition:
    """A tool that the agent may call; the schema of its arguments is a JSON Schema."""

    name: str
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """Return the definition in the form that evaluators read."""
        fields = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        return {name: plain(value) for name, value in fields.items() if value is not None}

    @classmethod
    def of(cls, tool: Any) -> "ToolDefinition":
        """Return the definition in what a request offers a model: of OpenAI, Anthropic, MCP, LangChain or pydantic-ai.

        Raises:
            ValueError: it has no name.
        """
        tool = _get(tool, "function") if isinstance(tool, Mapping) and "function" in tool else tool
        name = _get(tool, "name")
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a tool has a name")
        schemas = (_schema(_get(tool, key)) for key in _SCHEMAS)
        return cls(name, _get(tool, "description"), next((each for each in schemas if each is not None), None))


@dataclass(frozen=True)
class AgentTrace:
    """Steps of an agent and its answer. A task may return it."""

    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    reasoning_steps: tuple[str, ...] = ()

    def to_outputs(self) -> dict[str, Any]:
        """Return the outputs of a task: empty lists for what was not done, no output if nothing was said."""
        outputs = {
            "toolCalls": [each.document() for each in self.tool_calls],
            "reasoningSteps": [*self.reasoning_steps],
        }
        return outputs | ({} if self.final_response is None else {"output": self.final_response})

    def to_case(
        self, question: str | None = None, *, tools: Iterable[Any] | None = None, tasks: Sequence[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return the test case that this run answers; tools and tasks are left out if they are not known."""
        metadata: dict[str, Any] = {}
        if tools is not None:
            definitions = (each if isinstance(each, ToolDefinition) else ToolDefinition.of(each) for each in tools)
            metadata["tools"] = [each.document() for each in definitions]
        if tasks is not None:
            metadata["tasks"] = [*tasks]
        inputs = {} if question is None else {"input": question}
        return {"inputs": inputs, "actualOutputs": self.to_outputs(), "metadata": metadata}

    @classmethod
    def from_conversation(cls, trajectory: ConversationTrajectory) -> "AgentTrace":
        """Return the calls of all turns, and what the application said last."""
        last = trajectory.last_assistant_message
        return cls(tuple(trajectory.tool_calls()), None if last is None else last.content)

    @classmethod
    def from_openai(cls, result: Any) -> "AgentTrace":
        """Read chat completions, responses, their messages and items in order, or a result of the Agents SDK."""
        return _traced(_openai(result))

    @classmethod
    def from_anthropic(cls, result: Any) -> "AgentTrace":
        """Read a message, or the messages of a conversation in order, the answers of tools among them."""
        return _traced(_anthropic(result))

    @classmethod
    def from_langchain(cls, result: Any) -> "AgentTrace":
        """Read the result of an agent or graph (`{"messages": […]}`), its messages, or that of an `AgentExecutor`."""
        return _traced(_langchain(result))

    @classmethod
    def from_pydantic_ai(cls, result: Any) -> "AgentTrace":
        """Read the result of a run, or its messages. Structured output is the JSON of it."""
        output = _get(result, "output")
        is_structured = output is not None and not isinstance(output, str)
        messages = result.all_messages() if callable(getattr(result, "all_messages", None)) else result
        trace = _traced(_pydantic_ai(messages))
        calls = tuple(call for call in trace.tool_calls if not call.name.startswith(_OUTPUT_TOOL))
        answer = trace.final_response if output is None else _text_of(output)
        return replace(trace, tool_calls=calls if is_structured else trace.tool_calls, final_response=answer)


def outputs_of(answer: Any) -> dict[str, Any]:
    """Return the outputs of an application that answered so: a trace, a mapping, or the one output."""
    if isinstance(answer, AgentTrace):
        return answer.to_outputs()
    return dict(answer) if isinstance(answer, Mapping) else {"output": answer}


@dataclass(frozen=True)
class _Text:
    text: str | None  # None: somebody else is to speak


@dataclass(frozen=True)
class _Reasoning:
    text: str


@dataclass(frozen=True)
class _Answer:
    """Result of a tool call."""

    id: str | None
    name: str | None
    content: Any
    is_error: bool = False


_Step = _Text | _Reasoning | _Answer | ToolCall


def _traced(steps: Iterable[_Step]) -> AgentTrace:
    """Pair calls with their results; the final response is what was said after the last call."""
    calls: list[ToolCall] = []
    reasoning: list[str] = []
    answered: set[int] = set()
    response = None
    for step in steps:
        if isinstance(step, _Reasoning):
            reasoning.append(step.text)
        elif isinstance(step, _Text):
            response = step.text
        elif isinstance(step, ToolCall):
            calls.append(step)
            response = None
        else:
            place = next((at for at, call in enumerate(calls) if at not in answered and _answers(step, call)), None)
            if place is not None:
                answered.add(place)
                calls[place] = _with_result(calls[place], step)
    return AgentTrace(tuple(calls), response, tuple(reasoning))


def _answers(answer: _Answer, call: ToolCall) -> bool:
    return answer.name == call.name if answer.id is None else answer.id == call.id


def _with_result(call: ToolCall, answer: _Answer) -> ToolCall:
    result = plain(answer.content)
    failed = {"isError": True, "error": _text_of(result)} if answer.is_error else {}
    return replace(call, result=result, metadata={**call.metadata, **failed})


def _openai(result: Any) -> Iterator[_Step]:
    """Steps of a message or item, or of what holds several."""
    if callable(getattr(result, "to_input_list", None)):
        yield from _openai(result.to_input_list())
    elif _is_list(result):
        for each in result:
            yield from _openai(each)
    elif (choices := _get(result, "choices")) is not None:
        yield from _openai(_get(choices[0], "message")) if choices else ()
    elif _is_list(output := _get(result, "output")) and _get(result, "call_id") is None:
        yield from _openai(output)
    else:
        yield from _openai_item(result)


def _openai_item(item: Any) -> Iterator[_Step]:
    kind, role = _get(item, "type"), _get(item, "role")
    if kind in {"function_call", "custom_tool_call"}:
        arguments = _get(item, "arguments") if kind == "function_call" else _get(item, "input")
        yield _call(_get(item, "name"), arguments, _get(item, "call_id"))
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        yield _Answer(_get(item, "call_id"), None, _content(_get(item, "output")))
    elif kind == "reasoning":
        yield from _reasoning(_get(item, "summary"))
    elif role == "tool":
        yield _Answer(_get(item, "tool_call_id"), None, _content(_get(item, "content")))
    elif role == "assistant":
        yield from _said(_get(item, "content") or _get(item, "refusal"))
        for call in _get(item, "tool_calls") or ():
            function = _get(call, "function") or _get(call, "custom")
            arguments = _get(function, "arguments")
            yield _call(
                _get(function, "name"), _get(function, "input") if arguments is None else arguments, _get(call, "id")
            )
    elif role == "user":
        yield _Text(None)


def _anthropic(result: Any) -> Iterator[_Step]:
    if _is_list(result):
        for each in result:
            yield from _anthropic(each)
        return
    is_agent, content = _get(result, "role") == "assistant", _get(result, "content")
    blocks = content if _is_list(content) else [{"type": "text", "text": content}]
    answers = [each for each in blocks if str(_get(each, "type")).endswith("tool_result")]
    if is_agent:
        yield from _reasoning([each for each in blocks if _get(each, "type") == "thinking"])
        yield from _said(blocks)
    elif not answers:
        yield _Text(None)
    for block in blocks:
        if _get(block, "type") in {"tool_use", "server_tool_use", "mcp_tool_use"}:
            yield _call(_get(block, "name"), _get(block, "input"), _get(block, "id"))
    for block in answers:
        is_error = bool(_get(block, "is_error"))
        yield _Answer(_get(block, "tool_use_id"), None, _content(_get(block, "content")), is_error)


def _langchain(result: Any) -> Iterator[_Step]:
    if isinstance(result, Mapping) and "intermediate_steps" in result:
        for action, observation in result["intermediate_steps"]:
            name, call_id = _get(action, "tool"), _get(action, "tool_call_id")
            yield _call(name, _get(action, "tool_input"), call_id)
            yield _Answer(call_id, name, observation)
        yield from _said(result.get("output"))
        return
    messages = result["messages"] if isinstance(result, Mapping) and "messages" in result else result
    for message in messages if _is_list(messages) else [messages]:
        kind, content = _get(message, "type"), _get(message, "content")
        if kind == "tool":
            is_error = _get(message, "status") == "error"
            yield _Answer(_get(message, "tool_call_id"), _get(message, "name"), _content(content), is_error)
        elif kind == "ai":
            yield from _reasoning(
                [each for each in _blocks(content) if _get(each, "type") in {"thinking", "reasoning"}]
            )
            yield from _said(content)
            for call in [*(_get(message, "tool_calls") or ()), *(_get(message, "invalid_tool_calls") or ())]:
                yield _call(_get(call, "name"), _get(call, "args"), _get(call, "id"))
        elif kind == "human":
            yield _Text(None)


def _pydantic_ai(messages: Any) -> Iterator[_Step]:
    for message in messages if _is_list(messages) else [messages]:
        parts = _get(message, "parts") or ()
        texts = [str(_get(part, "content")) for part in parts if _get(part, "part_kind") == "text"]
        if texts:
            yield _Text("".join(texts))
        for part in parts:
            kind, content, call_id = (_get(part, key) for key in ("part_kind", "content", "tool_call_id"))
            name = _get(part, "tool_name")
            if kind in {"tool-call", "builtin-tool-call"}:
                yield _call(name, _get(part, "args"), call_id)
            elif kind in {"tool-return", "builtin-tool-return"}:
                yield _Answer(call_id, name, content, is_error=_get(part, "outcome") == "failed")
            elif kind == "retry-prompt" and name is not None:
                yield _Answer(call_id, name, content, is_error=True)
            elif kind == "thinking" and content:
                yield _Reasoning(content)
            elif kind == "user-prompt":
                yield _Text(None)


def _call(name: Any, arguments: Any, call_id: Any) -> ToolCall:
    """Return a call; arguments that are no JSON object stay as the model wrote them, so that they can be judged."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            read = arguments
        arguments = read if isinstance(read, Mapping) else arguments
    return ToolCall(str(name or "unnamed"), {} if arguments is None else plain(arguments), id=call_id)


def _said(content: Any) -> Iterator[_Step]:
    """Yield the text of an assistant message, if it has any."""
    texts = [content] if isinstance(content, str) else [_text(each) for each in _blocks(content)]
    if text := "".join(filter(None, texts)):
        yield _Text(text)


def _text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    return (_get(block, "text") or _get(block, "refusal")) if _get(block, "type") in _TEXTS else None


def _reasoning(blocks: Any) -> Iterator[_Step]:
    for block in _blocks(blocks):
        if text := _get(block, "thinking") or _get(block, "reasoning") or _get(block, "text"):
            yield _Reasoning(str(text))
        yield from _reasoning(_get(block, "summary"))


def _content(content: Any) -> Any:
    """The text of a tool's answer that is made of texts, else the answer as it is."""
    blocks = _blocks(content)
    texts = [_text(each) or (_get(each, "text") if _get(each, "type") == "input_text" else None) for each in blocks]
    return "".join(filter(None, texts)) if blocks and None not in texts else content


def _blocks(content: Any) -> Sequence[Any]:
    return content if _is_list(content) else ()


def _schema(value: Any) -> Mapping[str, Any] | None:
    if callable(getattr(value, "model_json_schema", None)):
        value = value.model_json_schema()
    return value if isinstance(value, Mapping) else None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
