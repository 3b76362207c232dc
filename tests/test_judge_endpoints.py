"""Endpoints of judges that answer with text and no verdict, in the shapes of providers and gateways."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pytest

from evaluators.chat.client import ChatModel, ModelCallFailed
from evaluators.chat.connection import ModelConnection
from evaluators.chat.judge import ChatJudge
from evaluators.chat.wire import Protocol
from evaluators.judge_interface import PromptMessage, UnusableAnswer
from evaluators.outcome import Usage
from storage.records import JsonValue
from tests.model_server import ModelRequest, ModelServer, Says, Sends, Status, Step, a_model

Judged: TypeAlias = tuple[str, Mapping[str, JsonValue]]
OUTPUT_SCHEMA: dict[str, JsonValue] = {"score": {"type": "number"}}
VERDICT = '{"score": 0.9}'


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Yield a server for all tests of this module, each of which sets its script."""
    with a_model(VERDICT) as started:
        yield started


def judge(
    server: ModelServer, protocol: Protocol, failures: list[ModelCallFailed], *, times: int, **settings: Any
) -> Judged:
    """Ask a judge several times; return the last outcome, and the parameters of the fingerprint."""
    connection = ModelConnection(base_url=server.base_url, model="m", protocol=protocol, attempts=1, **settings)

    async def once(model: ChatModel) -> str:
        try:
            await ChatJudge(model)([PromptMessage(role="user", content="Judge.")], OUTPUT_SCHEMA)
        except (ModelCallFailed, UnusableAnswer) as failure:
            if isinstance(failure, ModelCallFailed):
                failures.append(failure)
            return str(failure.kind)
        return "verdict"

    async def run() -> Judged:
        async with ChatModel(connection) as model:
            outcomes = [await once(model) for _ in range(times)]
            return outcomes[-1], dict(model.parameters)

    server.requests.clear()
    return asyncio.run(run())


def judged(server: ModelServer, document: object, protocol: Protocol = "CHAT_COMPLETIONS") -> str:
    """Judge with an endpoint that answers each request with this document and status 200."""
    server.script = lambda _: Sends(json.dumps(document).encode())
    return judge(server, protocol, [], times=1)[0]


def item(**message: object) -> dict[str, Any]:
    """Return an item of Responses with the verdict."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": VERDICT}], **message}


REFUSAL = {"type": "refusal", "refusal": "no"}


@pytest.mark.parametrize(
    "choice,message,outcome",
    [
        ({}, {}, "verdict"),
        ({"finish_reason": None, "native_finish_reason": "STOP"}, {}, "verdict"),
        ({"finish_reason": "FINISH_REASON_STOP"}, {"tool_calls": [], "function_call": None}, "verdict"),
        ({"native_finish_reason": "MAX_TOKENS"}, {}, "truncated"),
        ({"finish_reason": None, "stop_reason": "max_tokens"}, {}, "truncated"),
        ({"finish_reason": None, "finishReason": "MAX_TOKENS"}, {}, "truncated"),
        ({}, {"done_reason": "length"}, "truncated"),
        ({"stop_reason": "</s>"}, {}, "verdict"),  # the text that stopped it
        ({"stop_reason": 128001}, {}, "verdict"),
        ({"error": {"code": 502, "message": "the provider left"}}, {}, "unavailable"),
        ({"error": None}, {}, "verdict"),
        ({}, {"content": [{"type": "text", "text": VERDICT, "thought": True}]}, "bad_reply"),
        ({}, {"content": [{"type": "text", "text": VERDICT, "thought": False}]}, "verdict"),
        ({"native_finish_reason": "SAFETY"}, {}, "declined"),
        ({"finish_reason": "a word of tomorrow"}, {}, "truncated"),
        ({"finish_details": {"type": "max_tokens"}}, {}, "truncated"),
        ({"content_filter_results": {"hate": {"filtered": True}}}, {}, "declined"),
        ({"content_filter_results": {"hate": {"filtered": False}}}, {}, "verdict"),
        ({}, {"function_call": {"name": "f", "arguments": "{}"}}, "truncated"),
        ({}, {"tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f"}}]}, "truncated"),
        ({}, {"content": [REFUSAL, {"type": "text", "text": VERDICT}]}, "declined"),
        ({}, {"content": [{"type": "text", "text": VERDICT}]}, "verdict"),
        ({}, {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": VERDICT}]}]}, "bad_reply"),
        ({}, {"refusal": "no"}, "declined"),
        ({}, {"error": {"code": 502}}, "unavailable"),
        ({"safety_ratings": [{"category": "x", "blocked": True}]}, {}, "declined"),
        ({}, {"role": "user"}, "bad_reply"),
    ],
)
def test_a_chat_completion_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, choice: Mapping[str, object], message: Mapping[str, object], outcome: str
) -> None:
    """Each member with a reply's finish reason, refusal or tool call outweighs the text."""
    reply = {"message": {"role": "assistant", "content": VERDICT, **message}, "finish_reason": "stop", **choice}
    assert judged(server, {"choices": [reply]}) == outcome


def test_a_judge_that_declines_is_paid_for(server: ModelServer) -> None:
    """A refusal has the tokens that the endpoint counts for it, so that what a rule spends includes it."""
    reply = {"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    server.script = lambda _: Sends(json.dumps({"choices": [reply], "usage": usage}).encode())
    failures: list[ModelCallFailed] = []
    assert judge(server, "CHAT_COMPLETIONS", failures, times=1)[0] == "declined"
    assert isinstance(failures[0].usage, Usage)
    assert (failures[0].usage.calls, failures[0].usage.input_tokens, failures[0].usage.output_tokens) == (1, 7, 2)


OTHER = '{"score": 0, "reason": "no"}'


@pytest.mark.parametrize(
    "others,outcome",
    [
        ([{"message": {"content": OTHER}}], "bad_reply"),
        ([{"message": {"content": VERDICT}}], "bad_reply"),
        ([{"message": {"content": "words"}}, {"message": {"content": ""}}], "bad_reply"),
        ([{"message": {"content": None, "refusal": "no"}}], "declined"),
        ([{"message": {"content": ""}, "finish_reason": "length"}], "truncated"),
        ([{"message": {"content": ""}, "finish_reason": "stop"}], "verdict"),
        ([{"message": {"content": None}, "index": 1}], "verdict"),
    ],
)
def test_a_reply_with_several_choices_is_no_verdict(
    server: ModelServer, others: list[dict[str, Any]], outcome: str
) -> None:
    """Of choices that say something none is the verdict, in any order; one that is empty does not count as one."""
    one = {"message": {"role": "assistant", "content": VERDICT}, "finish_reason": "stop"}
    assert judged(server, {"choices": [one, *others]}) == outcome
    assert judged(server, {"choices": [*others, one]}) == outcome


@pytest.mark.parametrize("where", ["choice", "message", "response"])
def test_an_end_or_a_refusal_that_stands_elsewhere_counts(server: ModelServer, where: str) -> None:
    """Gateways write why a reply ended into the response or its message, and a refusal beside the message."""
    message: dict[str, Any] = {"content": VERDICT}
    choice: dict[str, Any] = {"message": message, "finish_reason": None}
    document: dict[str, Any] = {"choices": [choice]}
    if where == "choice":
        assert judged(server, {"choices": [{**choice, "refusal": "no"}]}) == "declined"
    {"choice": choice, "message": message, "response": document}[where]["finish_reason"] = "length"
    assert judged(server, document) == "truncated"


@pytest.mark.parametrize(
    "document,outcome",
    [
        ({"output": [item(), item(content=[{"type": "output_text", "text": OTHER}])]}, "bad_reply"),
        ({"output": [item(), item()]}, "bad_reply"),
        ({"output": [item(), item(content=[REFUSAL])]}, "declined"),
        ({"output": [item(content=[REFUSAL]), item()]}, "declined"),
        ({"status": "completed", "incomplete_details": None, "error": None, "output": [item()]}, "verdict"),
        ({"output": [item(status="completed", phase="final_answer")]}, "verdict"),
        ({"status": "incomplete", "incomplete_details": {"reason": "stop"}, "output": [item()]}, "truncated"),
        ({"incomplete_details": {"reason": None}, "output": [item()]}, "truncated"),
        ({"incomplete_details": {"reason": "content_filter"}, "output": [item()]}, "declined"),
        ({"status": "failed", "output": [item()]}, "truncated"),
        ({"output": [item(status="incomplete")]}, "truncated"),
        ({"output": [item(phase="commentary")]}, "bad_reply"),
        ({"output": [item(phase="commentary"), item(phase="final_answer")]}, "verdict"),
        ({"output": [item(role="user")]}, "bad_reply"),
        ({"output": [item(role=None, channel="commentary")]}, "bad_reply"),
        ({"incomplete_details": False, "output": [item(role=None)]}, "verdict"),
        ({"output": [item(), {"type": "mcp_approval_request"}]}, "truncated"),
        ({"output": [item(), {"type": "custom_tool_call", "name": "f"}]}, "truncated"),
        ({"output": [{"type": "web_search_call", "status": "completed"}, item()]}, "verdict"),
        ({"output": [REFUSAL, item()]}, "declined"),
        ({"output": [item(content=[{"type": "output_text", "text": VERDICT}, REFUSAL])]}, "declined"),
        ({"output": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": VERDICT}]}]}, "bad_reply"),
    ],
)
def test_a_response_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, document: Mapping[str, object], outcome: str
) -> None:
    """The statuses of a response and its items, phases and items of other types outweigh the text."""
    assert judged(server, document, "RESPONSES") == outcome


@pytest.mark.parametrize(
    "document,outcome",
    [
        ({"stop_reason": "end_turn", "stop_details": None}, "verdict"),
        ({"stop_reason": None}, "verdict"),
        ({"stop_reason": "refusal"}, "declined"),
        ({"stop_reason": "end_turn", "stop_details": {"type": "refusal"}}, "declined"),
        ({"content": [{"type": "text", "text": VERDICT}, REFUSAL]}, "declined"),
        ({"content": [{"type": "text", "text": VERDICT}, {"type": "text", "text": OTHER}]}, "bad_reply"),
        ({"stop_reason": "max_tokens"}, "truncated"),
        ({"stop_reason": "pause_turn"}, "truncated"),
        ({"stop_reason": "model_context_window_exceeded"}, "truncated"),
        ({"stop_reason": "tool_use"}, "truncated"),
        ({"role": "user"}, "bad_reply"),
    ],
)
def test_a_message_is_a_verdict_only_if_all_of_it_says_so(
    server: ModelServer, document: Mapping[str, object], outcome: str
) -> None:
    """What Anthropic's protocol says of the end of a message outweighs the text."""
    reply = {"type": "message", "content": [{"type": "text", "text": VERDICT}], **document}
    assert judged(server, reply, "ANTHROPIC") == outcome


@pytest.mark.parametrize(
    "document,status",
    [
        ({"error": "Rate limit exceeded"}, 429),
        ({"error": {"message": "slow down", "status_code": 429}}, 429),
        ({"error": [{"code": 429}]}, 429),
        ([{"error": {"code": 429}}, {"more": 1}], 429),
        ({"Error": {"Code": 429.0}}, 429),
        ({"detail": "Too many requests"}, 429),
        ({"Message": "Too Many Requests"}, 429),
        ({"message": "slow down", "code": 429}, 429),
        ({"object": "error", "message": "slow down", "type": "TooManyRequests"}, 429),
        ({"type": "error", "error": {"type": "rate_limit_error"}}, 429),
        ({"type": "error", "content": [{"type": "text", "text": VERDICT}]}, 502),
        ({"success": False, "errors": [{"code": 3040, "message": "no capacity"}], "result": None}, 503),
        ({"base_resp": {"status_code": 1002}}, 429),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": None}, 401),
        ({"base_resp": {"status_code": 1026}}, "declined"),
        ({"output_sensitive": True, "choices": [{"message": {"content": VERDICT}}]}, "declined"),
        ({"code": "Throttling.RateQuota", "message": "slow down", "request_id": "1"}, 429),
        ({"code": "InvalidApiKey", "message": "Invalid API-key provided."}, 401),
        ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, 429),
        ({"error": {"code": "1302", "message": "您的账户已达到速率限制"}}, 429),
        ({"error": {"type": "authentication_error", "message": "no"}}, 401),
        ({"choices": [{"error": {"code": 429, "message": "slow"}, "message": {"content": VERDICT}}]}, 429),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "declined"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": '{"error": {"code": 429}}'}}}, 429),
        ({"ok": False, "description": "Too many requests"}, 429),
        ({"fault": {"faultstring": "Rate limit quota violation."}}, 429),
        ({"errcode": 429, "errmsg": "slow"}, 429),
        ({"code": 500, "message": "no", "choices": [{"message": {"content": VERDICT}}]}, 500),
        ({"status": "error", "choices": [{"message": {"content": VERDICT}}]}, "truncated"),
        ({"error": "upstream returned HTTP 429"}, 429),
        ({"error": {"code": "context_length_exceeded", "message": "too long"}}, 400),
        ({"errors": [None], "error": "None", "choices": [{"message": {"content": VERDICT}}]}, "verdict"),
        (b"error code: 524", 524),
        (b'{"ping": 1}\n{"error": {"code": 429}}\n', 429),
        (b"event: error\ndata: slow down\n\n", 429),
        (b"<html><script>var apiKey = 1</script>busy</html>", 503),
        (b"", 502),
        (b"<html><title>502 Bad Gateway</title>nginx</html>", 503),
        (b"<html>Welcome</html>", 502),
        (b"Too many requests", 429),
        (b'data: {"error": {"code": 429}}\n\ndata: [DONE]\n\n', 429),
        (b"plain words", "bad_reply"),
        (b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', "bad_reply"),
        ({"error": {"code": None, "message": ""}, "choices": [{"message": {"content": VERDICT}}]}, "verdict"),
        ({"base_resp": {"status_code": 0}, "choices": [{"message": {"content": VERDICT}}]}, "verdict"),
        ({"content_filter": [{"level": 3}], "choices": [{"message": {"content": VERDICT}}]}, "verdict"),
    ],
)
def test_an_error_of_any_shape_with_status_200_is_that_error(
    server: ModelServer, document: object, status: int | str
) -> None:
    """The numbers and words of a response without an answer say which error it is, and nothing is charged for it."""
    server.script = lambda _: Sends(document if isinstance(document, bytes) else json.dumps(document).encode())
    failures: list[ModelCallFailed] = []
    outcome, _ = judge(server, "CHAT_COMPLETIONS", failures, times=1)
    if isinstance(status, str):
        assert outcome == status
        return
    assert str(failures[0]).startswith(f"status 200 with an error in the body, as of {status}: ")
    kind = "not_served" if status in {401, 402, 403, 404} else "refused"
    assert outcome == ("rate_limited" if status == 429 else "unavailable" if status >= 500 else kind)
    assert isinstance(failures[0].usage, Usage)
    assert (failures[0].usage.input_tokens, failures[0].usage.output_tokens) == (0, 0)


AZURE = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."


@pytest.mark.parametrize(
    "status,error",
    [
        (400, {"code": "content_filter", "message": AZURE}),
        (400, {"code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}}),
        (400, {"code": "x", "inner_error": {"code": "y", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        (400, {"code": "400", "message": AZURE}),
        (400, {"code": "x", "details": [{"code": "content_filter"}]}),
        (400, "content_filter"),
        (400, {"message": "litellm.BadRequestError: litellm.ContentPolicyViolationError: no", "code": "400"}),
        (400, {"message": "Violated guardrail policy", "code": "400"}),
        (400, {"message": {"error": "no", "bedrock_guardrail_response": {"action": "GUARDRAIL_INTERVENED"}}}),
        (
            400,
            {"code": "invalid_prompt", "message": "Your prompt was flagged as potentially violating our usage policy."},
        ),
        (400, {"code": 400, "status": "PROHIBITED_CONTENT"}),
        (400, {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}),
        (
            400,
            {"message": "<400> InternalError.Algo.DataInspectionFailed: inappropriate content."},
        ),
        (400, {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}),
        (400, {"type": "content_filter", "message": "The request was rejected because it was considered high risk"}),
        (400, {"code": "InputTextSensitiveContentDetected", "message": "no"}),
        (403, {"code": 403, "message": "no", "metadata": {"reasons": ["violence"], "flagged_input": "some text"}}),
        (422, {"message": "Blocked by the safety filter"}),
        (500, {"code": "content_filter", "message": "no"}),
    ],
)
def test_a_filter_is_read_in_the_words_of_each_provider(server: ModelServer, status: int, error: object) -> None:
    """A request that a content filter stopped is declined, and sent once."""
    server.script = lambda _: Status(status, json.dumps({"error": error}).encode())
    assert judge(server, "CHAT_COMPLETIONS", [], times=1)[0] == "declined"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "status,body,outcome",
    [
        (401, {"error": {"message": "The key is blocked by the safety policy"}}, "not_served"),
        (400, {"detail": [{"msg": "Bad", "input": "unsafe content, content filter"}]}, "refused"),
        (400, {"__type": "ThrottlingException", "message": "slow down"}, "rate_limited"),
        (403, {"error": {"errors": [{"reason": "rateLimitExceeded"}], "message": "no"}}, "rate_limited"),
        (429, {"error": {"type": "moderation_rate_limit"}}, "rate_limited"),
    ],
)
def test_what_only_looks_like_a_filter_is_none(server: ModelServer, status: int, body: object, outcome: str) -> None:
    """Keys that are refused, echoes of the request and limits of rates are not a content filter."""
    server.script = lambda _: Status(status, json.dumps(body).encode())
    assert judge(server, "CHAT_COMPLETIONS", [], times=1)[0] == outcome


def of(message: str, **members: object) -> dict[str, object]:
    """Return an error as OpenAI writes it."""
    return {"error": {"message": message, "type": "invalid_request_error", **members}}


ALL = {"temperature", "max_tokens", "response_format", "reasoning_effort"}
TEMPERATURE = ({"temperature"}, {"reasoningEffort": "low"})
LIMIT = ({"max_tokens"}, {"temperature": 0, "reasoningEffort": "low"})
EFFORT = ({"reasoning_effort"}, {"temperature": 0})
SCHEMA = ({"response_format"}, {"temperature": 0, "reasoningEffort": "low", "structuredOutput": False})
BOTH = ({"temperature", "response_format"}, {"reasoningEffort": "low", "structuredOutput": False})


@pytest.mark.parametrize(
    "status,body,refused",
    [
        (
            400,
            of("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"),
            LIMIT,
        ),
        (400, of("Please use max_completion_tokens instead of max_tokens."), LIMIT),
        (400, of("Invalid parameter: max_tokens", code="invalid_parameter"), LIMIT),
        (400, of("litellm.UnsupportedParamsError: openai does not support parameters: ['max_tokens']"), LIMIT),
        (422, {"message": "max_tokens: unrecognized field"}, LIMIT),
        (400, of("'temperature' does not support 0. Only the default (1) value is supported."), TEMPERATURE),
        (400, of("invalid temperature: only 1 is allowed for this model"), TEMPERATURE),
        (400, of("`temperature` may only be set to 1 when thinking is enabled."), TEMPERATURE),
        (400, of("`temperature` is deprecated for this model."), TEMPERATURE),
        (400, of("gpt-5 models don't support temperature=0.0. Only temperature=1 is supported."), TEMPERATURE),
        (400, of("The temperature parameter cannot be used with this model"), TEMPERATURE),
        (400, of("temperature is not available for reasoning models"), TEMPERATURE),
        (400, of("<400> InternalError.Algo.InvalidParameter: temperature"), TEMPERATURE),
        (400, of("Model does not take this one", param="temperature"), TEMPERATURE),
        (422, {"errors": {"temperature": ["is not allowed"]}}, TEMPERATURE),
        (400, {"error": {"message": "no", "unsupported_params": ["temperature"]}}, TEMPERATURE),
        (400, {"detail": "Unsupported parameter: temperature"}, TEMPERATURE),
        (
            400,
            {"code": "Client specified an invalid argument", "error": "Argument not supported: temperature"},
            TEMPERATURE,
        ),
        (400, [of("Unsupported parameter temperature", code=400)], TEMPERATURE),
        (
            422,
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "Extra inputs"}]},
            TEMPERATURE,
        ),
        (200, {"error": {"code": 400, "message": "Unsupported parameter: temperature"}}, TEMPERATURE),
        (200, of("temperature is not available for reasoning models"), TEMPERATURE),
        (400, of("Provider returned error", metadata={"raw": json.dumps(of("no temperature, please"))}), TEMPERATURE),
        (400, of('Unknown name "reasoning_effort": Cannot find field.'), EFFORT),
        (400, of("This model does not support the effort parameter."), EFFORT),
        (400, of("Unrecognized request argument supplied: reasoning_effort"), EFFORT),
        (400, of("'response_format' of type 'json_schema' is not supported with this model."), SCHEMA),
        (400, of("This model does not support structured outputs"), SCHEMA),
        (400, of("Unsupported parameters: response_format, temperature"), BOTH),
    ],
)
def test_a_parameter_that_an_error_names_is_left_out(
    server: ModelServer, status: int, body: object, refused: tuple[set[str], Mapping[str, object]]
) -> None:
    """Each parameter that is named in a refusal is replaced or left out at once, and so is it in the fingerprint."""
    names, fingerprinted = refused

    def script(request: ModelRequest) -> Step:
        encoded = json.dumps(body).encode()
        return (
            (Status(status, encoded) if status != 200 else Sends(encoded))
            if names & request.body.keys()
            else Says(VERDICT)
        )

    server.script = script
    outcome, parameters = judge(server, "CHAT_COMPLETIONS", [], times=2, **EVERYTHING)
    assert outcome == "verdict"
    assert parameters == fingerprinted
    assert [ALL & request.body.keys() for request in server.requests] == [ALL, ALL - names, ALL - names]
    assert ("max_completion_tokens" in server.requests[-1].body) == ("max_tokens" in names)


EVERYTHING: Mapping[str, Any] = {"temperature": 0.0, "max_output_tokens": 500, "reasoning_effort": "low"}


def test_parameters_are_left_out_in_turn(server: ModelServer) -> None:
    """A model that takes nothing is asked once for each parameter, and at once without all of them the next time."""
    optional = ("max_tokens", "max_completion_tokens", "temperature", "reasoning_effort", "response_format")

    def script(request: ModelRequest) -> Step:
        name = next((name for name in optional if name in request.body), None)
        return Says(VERDICT) if name is None else Status(400, json.dumps(of(f"no {name}")).encode())

    server.script = script
    assert judge(server, "CHAT_COMPLETIONS", [], times=2, **EVERYTHING) == ("verdict", {"structuredOutput": False})
    assert len(server.requests) == len(optional) + 2


@pytest.mark.parametrize("protocol", ["RESPONSES", "ANTHROPIC"])
def test_each_protocol_leaves_out_its_own_names(server: ModelServer, protocol: Protocol) -> None:
    """Names with a point are read, and the form stays if only the effort beside it is refused; a needed limit stays."""
    effort = "reasoning.effort" if protocol == "RESPONSES" else "output_config.effort"
    limit = "max_output_tokens" if protocol == "RESPONSES" else "max_tokens"

    def script(request: ModelRequest) -> Step:
        has_effort = "reasoning" in request.body or "effort" in request.body.get("output_config", {})
        return Status(400, json.dumps(of("no", param=effort)).encode()) if has_effort else Says(VERDICT)

    server.script = script
    assert judge(server, protocol, [], times=1, **EVERYTHING) == ("verdict", {"temperature": 0.0})
    assert server.requests[-1].schema is not None
    server.script = lambda request: (
        Status(400, json.dumps(of("no", param=limit)).encode()) if limit in request.body else Says("")
    )
    judge(server, protocol, [], times=1, **EVERYTHING)
    assert (limit in server.requests[-1].body) == (protocol == "ANTHROPIC")


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 50000",
        "Invalid 'max_tokens': integer above maximum value. Expected a value <= 4096, but got 50000 instead.",
        "max_tokens: 50000 > 8192, which is the maximum allowed number of output tokens",
        "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
        "Range of max_tokens should be [1, 8192]",
        "temperature: Input should be less than or equal to 1",
        "'temperature' : value must be a number",
        "reasoning_effort must be one of low, medium, high",
        "the temperature of the room in the prompt",
    ],
)
def test_a_parameter_that_is_only_mentioned_is_kept(server: ModelServer, message: str) -> None:
    """A value out of range is the user's to correct, and an error that goes on without a parameter was not about it."""
    server.script = lambda _: Status(400, json.dumps(of(f"{message} (request {len(server.requests)}a)")).encode())
    outcome, parameters = judge(server, "CHAT_COMPLETIONS", [], times=2, **EVERYTHING)
    assert outcome == "refused"
    assert parameters == {"temperature": 0.0, "reasoningEffort": "low"}
    assert len(server.requests) <= 6
    server.script = lambda request: Status(400, json.dumps(of(message)).encode()) if request.schema else Says(VERDICT)
    outcome, parameters = judge(server, "CHAT_COMPLETIONS", [], times=1, **EVERYTHING)
    assert (outcome, parameters) == ("verdict", SCHEMA[1])
