"""Runs of agents for evaluators, from results of OpenAI, Anthropic, LangChain and pydantic-ai.

None of these libraries is imported: their objects, and the same as JSON, are read by their documented field names.
"""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tracejury.conversation import ConversationTrajectory, ToolCall
from tracejury.plain import plain

_SCHEMAS: Final = (
    "tool_call_schema",  # of LangChain, without the arguments that it fills in itself
    "inputSchema",
    "input_schema",
    "parameters",
    "params_json_schema",
    "parameters_json_schema",
    "args_schema",
)
_TEXTS: Final = frozenset({"text", "output_text", "refusal"})
_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "server_tool_call"})
_HOSTED_INPUTS: Final = ("arguments", "action", "actions", "operation", "queries", "code", "revised_prompt")
_HOSTED_OUTPUTS: Final = ("output", "outputs", "results", "result")
_OUTPUT_TOOL: Final = "final_result"  # the tool by which pydantic-ai requests structured output
_OUTPUT_TAKEN: Final = ("Returning structured response", "Final result processed")  # results of this tool


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
        """Read a tool's definition: of OpenAI, Anthropic, MCP, LangChain or pydantic-ai, or a Python function.

        Raises:
            ValueError: the definition has no name.
        """
        if isinstance(tool, Mapping):  # as OpenAI has it, whose own tools are known by their type
            tool = tool.get("function") or tool.get("custom") or tool
            name = tool.get("name", tool.get("type"))
        else:
            tool = _get(tool, "tool_def") or tool
            name = _get(tool, "name")
        description = _get(tool, "description")
        if inspect.isfunction(tool):
            name, description = tool.__name__, inspect.getdoc(tool)
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a tool has a name")
        schemas = (_schema(_get(tool, key)) for key in _SCHEMAS)
        schema = next((each for each in schemas if each is not None), None)
        return cls(name, description, schema)


@dataclass(frozen=True)
class AgentTrace:
    """Steps of an agent and its answer. A task may return it."""

    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    reasoning_steps: tuple[str, ...] = ()

    def to_outputs(self) -> dict[str, Any]:
        """Return the outputs of a task: empty lists for nothing done, no output without an answer."""
        outputs = {
            "toolCalls": [each.document() for each in self.tool_calls],
            "reasoningSteps": [*self.reasoning_steps],
        }
        return outputs | ({} if self.final_response is None else {"output": self.final_response})

    def to_case(
        self, question: str | None = None, *, tools: Iterable[Any] | None = None, tasks: Sequence[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a test case with this run as its actual outputs; tools and tasks are left out if unknown."""
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
        """Return the calls of all turns, and the application's last message."""
        last = trajectory.last_assistant_message
        return cls(tuple(trajectory.tool_calls()), None if last is None else last.content)

    @classmethod
    def from_openai(cls, result: Any) -> "AgentTrace":
        """Read chat completions, responses, their messages and items in order, or a result of the Agents SDK.

        Raises:
            ValueError: the result is none of them, such as a chunk of a stream.
        """
        return _traced(_openai(result))

    @classmethod
    def from_anthropic(cls, result: Any) -> "AgentTrace":
        """Read a message, or the messages of a conversation in order, including the results of tools.

        Raises:
            ValueError: the result is not a message, such as an event of a stream.
        """
        return _traced(_anthropic(result))

    @classmethod
    def from_langchain(cls, result: Any) -> "AgentTrace":
        """Read the result of an agent or graph (`{"messages": […]}`), its messages, or an `AgentExecutor`'s result.

        Structured output becomes the final response, as JSON.

        Raises:
            ValueError: the value has none of these forms.
        """
        value = result if isinstance(result, Mapping) else _get(result, "value") or result
        return _with_output(_traced(_langchain(value)), _get(value, "structured_response"))

    @classmethod
    def from_pydantic_ai(cls, result: Any) -> "AgentTrace":
        """Read the result of a run, or its messages. Structured output becomes the final response, as JSON.

        Raises:
            ValueError: the value is neither a run's result nor messages.
        """
        result = _get(result, "result") or result
        output, output_tool = _get(result, "output"), _get(result, "_output_tool_name")
        messages = result.all_messages() if callable(getattr(result, "all_messages", None)) else result
        trace = _traced(_pydantic_ai(messages))
        is_plain = isinstance(output, str) and output_tool is None
        if is_plain:
            return replace(trace, final_response=output)
        return _with_output(trace, output, output_tool or _OUTPUT_TOOL)


def outputs_of(answer: Any) -> dict[str, Any]:
    """Return the outputs in an application's answer: a trace, a mapping of outputs, or the one output."""
    if isinstance(answer, AgentTrace):
        return answer.to_outputs()
    return dict(answer) if isinstance(answer, Mapping) else {"output": answer}


@dataclass(frozen=True)
class _Text:
    text: str | None  # None: a message of the user, so earlier text is not the final response


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
    """Pair calls with their results; the final response is the text after the last call."""
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


def _with_output(trace: AgentTrace, output: Any, tool: str | None = None) -> AgentTrace:
    """Convert calls that are the structured output of an agent to its answer."""
    names = {call.name for call in trace.tool_calls if str(call.result).startswith(_OUTPUT_TAKEN)}
    outputs = [
        call for call in trace.tool_calls if call.name in names or (tool is not None and call.name.startswith(tool))
    ]
    is_last = output is None and trace.final_response is None and bool(outputs)
    answer = outputs[-1].arguments if is_last else output
    return replace(
        trace,
        tool_calls=tuple(call for call in trace.tool_calls if call not in outputs),
        final_response=trace.final_response if answer is None else _text_of(answer),
    )


def _answers(answer: _Answer, call: ToolCall) -> bool:
    return answer.name == call.name if answer.id is None else answer.id == call.id


def _with_result(call: ToolCall, answer: _Answer) -> ToolCall:
    result = plain(answer.content)
    failed = {"isError": True} if answer.is_error else {}
    error = {"error": _text_of(result)} if answer.is_error and result is not None else {}
    return replace(call, result=result, metadata={**call.metadata, **failed, **error})


def _openai(result: Any) -> Iterator[_Step]:
    """Yield the steps of a message or item, or of a container of several."""
    if callable(getattr(result, "to_input_list", None)):
        yield from _openai(result.to_input_list())
    elif (item := _get(result, "raw_item")) is not None:  # an element of `new_items` of the Agents SDK
        yield from _openai(item)
    elif _is_list(result):
        for each in result:
            yield from _openai(each)
    elif (choices := _get(result, "choices")) is not None:
        yield from _openai(_get(choices[0], "message")) if choices else ()
    elif _is_list(output := _get(result, "output")) and not str(_get(result, "type")).endswith(("_call", "_output")):
        yield from _openai(output)
    elif (_get(result, "type") or _get(result, "role")) and not str(_get(result, "type")).startswith("response."):
        yield from _openai_item(result)
    else:
        raise _unknown(result, "completion, response, message or item of OpenAI")


def _openai_item(item: Any) -> Iterator[_Step]:
    kind, role = str(_get(item, "type")), _get(item, "role")
    if kind.endswith("_call") or kind == "reasoning":
        yield from _said([item])
    elif kind.endswith("_call_output"):
        call_id = _get(item, "call_id") or _get(item, "id")
        yield _Answer(call_id, None, _content(_get(item, "output")), _get(item, "status") == "failed")
    elif role in {"tool", "function"}:
        yield _Answer(_get(item, "tool_call_id"), _get(item, "name"), _content(_get(item, "content")))
    elif role == "assistant":
        for text in (_get(item, "reasoning_content"), _get(item, "reasoning")):  # of servers of open models
            if isinstance(text, str) and text:
                yield _Reasoning(text)
        audio = _get(_get(item, "audio"), "transcript")
        yield from _said(_get(item, "content") or _get(item, "refusal") or audio)
        for call in [*(_get(item, "tool_calls") or ()), *filter(None, [_get(item, "function_call")])]:
            function = _get(call, "function") or _get(call, "custom") or call
            arguments = _get(function, "arguments")
            value = _get(function, "input") if arguments is None else arguments
            yield _call(_get(function, "name"), value, _get(call, "id"))
    elif role == "user":
        yield _Text(None)


def _anthropic(result: Any) -> Iterator[_Step]:
    if _is_list(result):
        for each in result:
            yield from _anthropic(each)
        return
    role, content = _get(result, "role"), _get(result, "content")
    if role is None:
        raise _unknown(result, "message of Anthropic")
    if role == "assistant":
        yield from _said(content)
        return
    answers = [step for block in _blocks(content) for step in _block(block) if isinstance(step, _Answer)]
    yield from answers
    if not answers:
        yield _Text(None)


def _langchain(result: Any) -> Iterator[_Step]:
    if isinstance(result, Mapping) and "intermediate_steps" in result:
        for action, observation in result["intermediate_steps"]:
            name, call_id = _get(action, "tool"), _get(action, "tool_call_id")
            yield _call(name, _get(action, "tool_input"), call_id)
            yield _Answer(call_id, name, observation)
        yield from _said(result.get("output"))
        return
    messages = _get(result, "messages")
    messages = result if messages is None else messages
    for message in messages if _is_list(messages) else [messages]:
        yield from _langchain_message(message)


def _langchain_message(message: Any) -> Iterator[_Step]:
    message = _get(message, "data") or _get(message, "kwargs") or message  # as `messages_to_dict` and `dumpd` have it
    kind = str(_get(message, "type")).removesuffix("MessageChunk").lower()  # AIMessageChunk: the sum of a stream
    content, more = _get(message, "content"), _get(message, "additional_kwargs")
    if kind == "none":
        raise _unknown(message, "result or message of LangChain")
    if kind == "tool":
        is_error = _get(message, "status") == "error"
        yield _Answer(_get(message, "tool_call_id"), _get(message, "name"), _content(content), is_error)
    elif kind == "ai":
        if isinstance(thought := _get(more, "reasoning_content"), str) and thought:
            yield _Reasoning(thought)
        yield from _said([_get(more, "reasoning"), *(_get(more, "tool_outputs") or ())])
        # Calls that are to be made are in `tool_calls`, whatever the provider has in the content.
        yield from _said(
            [each for each in _blocks(content) if _get(each, "type") not in {"tool_use", "tool_call", "function_call"}]
            or content
            or _get(more, "refusal")
        )
        for call in [*(_get(message, "tool_calls") or ()), *(_get(message, "invalid_tool_calls") or ())]:
            yield _call(_get(call, "name"), _get(call, "args"), _get(call, "id"))
    elif kind == "human":
        yield _Text(None)


def _pydantic_ai(messages: Any) -> Iterator[_Step]:
    for message in messages if _is_list(messages) else [messages]:
        parts = _get(message, "parts")
        if parts is None:
            raise _unknown(message, "result or message of pydantic-ai")
        yield from _joined(step for part in parts for step in _part(part))


def _part(part: Any) -> Iterator[_Step | str]:
    kind, content, call_id = (_get(part, key) for key in ("part_kind", "content", "tool_call_id"))
    name = _get(part, "tool_name")
    if kind in {"tool-call", "builtin-tool-call"}:
        yield _call(name, _get(part, "args"), call_id)
    elif kind in {"tool-return", "builtin-tool-return"}:
        yield _Answer(call_id, name, content, is_error=_get(part, "outcome") not in {None, "success"})
    elif kind == "retry-prompt" and name is not None:
        yield _Answer(call_id, name, content, is_error=True)
    elif kind == "text":
        yield str(content)
    elif kind == "thinking" and content:
        yield _Reasoning(content)
    elif kind == "user-prompt":
        yield _Text(None)


def _unknown(value: Any, kind: str) -> ValueError:
    return ValueError(f"{type(value).__name__} is not a {kind}; of a stream, give the result that it adds up to")


def _call(name: Any, arguments: Any, call_id: Any) -> ToolCall:
    """Return a call; arguments that are not a JSON object stay as the model wrote them, so that they can be judged."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            read = arguments
        arguments = read if isinstance(read, Mapping) else arguments
    return ToolCall(str(name or "unnamed"), {} if arguments is None else plain(arguments), id=call_id)


def _said(content: Any) -> Iterator[_Step]:
    blocks = [content] if isinstance(content, str) else _blocks(content)
    yield from _joined(step for each in blocks for step in _block(each))


def _joined(steps: Iterable[_Step | str]) -> Iterator[_Step]:
    """Yield steps with pieces of text as one, unless there is a call between them."""
    text = ""
    for step in steps:
        if isinstance(step, str):
            text += step
            continue
        if text and not isinstance(step, _Reasoning):
            yield _Text(text)
            text = ""
        yield step
    if text:
        yield _Text(text)


def _block(block: Any) -> Iterator[_Step | str]:
    """Yield the steps of a block or item: text, reasoning, a call, or the result of one."""
    kind = str(_get(block, "type"))
    if text := _text(block):
        yield text
    elif kind in {"thinking", "reasoning"} or _get(block, "summary"):
        yield from _reasoning([block])
    elif kind in _USES:
        value = _get(block, "input")
        yield _call(_get(block, "name"), _get(block, "args") if value is None else value, _get(block, "id"))
    elif kind.endswith("tool_result"):
        content = _get(block, "output") if _get(block, "content") is None else _get(block, "content")
        failed = _get(block, "is_error") or _get(block, "status") == "error"
        is_error = bool(failed) or str(_get(content, "type")).endswith("_error")
        yield _Answer(_get(block, "tool_use_id") or _get(block, "tool_call_id"), None, _content(content), is_error)
    elif kind in {"function_call", "custom_tool_call"}:
        value = _get(block, "arguments") if kind == "function_call" else _get(block, "input")
        yield _call(_get(block, "name"), value, _get(block, "call_id"))
    elif kind.endswith("_call"):
        yield from _hosted(block, kind.removesuffix("_call"))


def _hosted(item: Any, kind: str) -> Iterator[_Step]:
    """Yield a call that OpenAI made, such as `web_search_call`, and its result if that is in the same item."""
    inputs = {key: _get(item, key) for key in _HOSTED_INPUTS}
    value = next((inputs[key] for key in ("arguments", "action", "operation") if inputs[key] is not None), inputs)
    if not isinstance(value, str):
        value = {key: each for key, each in plain(value).items() if each is not None}
    call_id = _get(item, "call_id") or _get(item, "id")
    yield _call(_get(item, "name") or kind, value, call_id)
    output = next((each for key in _HOSTED_OUTPUTS if (each := _get(item, key)) is not None), None)
    error, has_failed = _get(item, "error"), _get(item, "status") == "failed"
    if output is not None or error is not None or has_failed:
        is_error = error is not None or has_failed
        yield _Answer(call_id, None, _content(output if error is None else error), is_error)


def _text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    texts = (_get(block, name) for name in ("text", "refusal")) if _get(block, "type") in _TEXTS else ()
    return next((text for text in texts if text is not None), None)


def _reasoning(blocks: Any) -> Iterator[_Step]:
    for block in _blocks(blocks):
        if text := _get(block, "thinking") or _get(block, "reasoning") or _get(block, "text"):
            yield _Reasoning(str(text))
        yield from _reasoning(_get(block, "summary"))
        yield from _reasoning(_get(block, "content"))


def _content(content: Any) -> Any:
    blocks = _blocks(content)
    texts = [_get(each, "text") if _get(each, "type") == "input_text" else _text(each) for each in blocks]
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
