"""The chat client against a server that answers, refuses, babbles and hangs."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import pytest

from evaluators.chat.answering import ANSWER_BYTES
from evaluators.chat.client import Answered, ChatModel, ModelCallFailed
from evaluators.chat.connection import BadConnection, ModelConnection, Price
from evaluators.chat.pace import RETRYABLE, wait_asked_for
from evaluators.chat.wire import WIRES, ChatPrompt, Protocol
from evaluators.outcome import Usage
from tests.model_server import (
    CHAT,
    MESSAGES,
    MODEL_RETURNED,
    RESPONSES,
    HalfSends,
    Hangs,
    ModelRequest,
    Says,
    Sends,
    Status,
    Step,
    Streams,
    a_model,
)

PROTOCOLS = get_args(Protocol)
PATHS = {"RESPONSES": RESPONSES, "CHAT_COMPLETIONS": CHAT, "ANTHROPIC": MESSAGES}
PROMPT = ChatPrompt(system="Judge.", user="This is the data: é😀")
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
KEY = "sk-secret+key/with=signs"
AT_ONCE = {"retry-after-ms": "1"}


def ask(base_url: str, protocol: Protocol = "CHAT_COMPLETIONS", **settings: object) -> Answered:
    """Send one message to the model at this address."""
    return ask_each(base_url, protocol, 1, **settings)[0]


def ask_each(base_url: str, protocol: Protocol, times: int, **settings: object) -> list[Answered]:
    """Send the same message several times, one after another, through one client."""
    connection = ModelConnection(base_url=base_url, model="judge-1", protocol=protocol, timeout_s=5)

    async def run() -> list[Answered]:
        async with ChatModel(replace(connection, **settings)) as model:  # type: ignore[arg-type]
            return [await model.ask(PROMPT, SCHEMA) for _ in range(times)]

    return asyncio.run(run())


def failure(step: object, protocol: Protocol = "CHAT_COMPLETIONS", **settings: object) -> ModelCallFailed:
    """Send a request that fails; return the failure."""
    with a_model(step) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, protocol, **settings)
    return raised.value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_question_is_answered_over_each_protocol(protocol: Protocol) -> None:
    """Each protocol carries the prompt and the form there, and the text, model and tokens back."""
    with a_model('{"score": 1}') as server:
        answered = ask(server.base_url, protocol, price=Price(input_usd_per_million=2, output_usd_per_million=10))
    (request,) = server.requests
    assert (request.path, request.system, request.user) == (PATHS[protocol], PROMPT.system, PROMPT.user)
    assert request.body["model"] == "judge-1"
    assert request.schema == SCHEMA
    assert answered.answer.text == '{"score": 1}'
    usage = answered.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.model) == (1, 100, 20, MODEL_RETURNED)
    assert usage.cost_usd == pytest.approx(0.0004)
    assert 0 < usage.latency_ms < 5000


def test_the_responses_api_is_told_to_keep_nothing() -> None:
    """Requests to the Responses API tell the provider not to store them."""
    with a_model("fine") as server:
        ask(server.base_url, "RESPONSES")
    assert server.requests[0].body["store"] is False


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parameters_and_headers_go_where_the_protocol_wants_them(protocol: Protocol) -> None:
    """Temperature, effort and headers of one's own are sent, and the key in the header of the protocol."""
    with a_model("fine") as server:
        ask(
            server.base_url,
            protocol,
            key=KEY,
            temperature=0.0,
            reasoning_effort="low",
            max_output_tokens=77,
            headers=(("X-Team", "search"),),
        )
    (request,) = server.requests
    assert request.body["temperature"] == 0.0
    effort = {
        "RESPONSES": request.body.get("reasoning"),
        "CHAT_COMPLETIONS": {"effort": request.body.get("reasoning_effort")},
        "ANTHROPIC": {"effort": request.body.get("output_config", {}).get("effort")},
    }
    assert effort[protocol] == {"effort": "low"}
    assert request.body["max_output_tokens" if protocol == "RESPONSES" else "max_tokens"] == 77
    assert request.schema == SCHEMA
    headers = request.headers
    assert headers["x-team"] == "search"
    own = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    expected = own if protocol == "ANTHROPIC" else {"authorization": f"Bearer {KEY}"}
    assert {name: headers[name] for name in (*own, "authorization") if name in headers} == expected


def test_anthropic_needs_a_limit_and_has_words_of_its_own() -> None:
    """A request to Anthropic always has a token limit; a refusal and a cut answer differ from a malformed reply."""
    with a_model("fine") as server:
        ask(server.base_url, "ANTHROPIC")
    assert server.requests[0].body["max_tokens"] == 4096
    wire = WIRES["ANTHROPIC"]
    text = [{"type": "text", "text": "no"}]
    refused = wire.answer({"content": text, "stop_reason": "refusal", "usage": {"input_tokens": 5, "output_tokens": 1}})
    assert (refused.refusal, refused.input_tokens, refused.is_cut_off) == ("no", 5, False)
    assert wire.answer({"content": [], "stop_reason": "max_tokens"}).is_cut_off


@pytest.mark.parametrize(
    "name,value", [("Host", "a"), ("authorization", "a"), ("X Y", "a"), ("X-A", "a\r\nB: c"), ("X-A", "é"), ("X-A", "")]
)
def test_headers_that_are_not_ones_own_are_refused(name: str, value: str) -> None:
    """No header can replace one of ours or end another one, and no value is repeated in an error."""
    with pytest.raises(BadConnection, match="headers: ") as refused:
        ModelConnection(base_url="http://x/v1", model="m", headers=((name, value),))
    assert value in {"", "a"} or value not in str(refused.value)


def test_values_of_headers_are_cut_out_of_errors() -> None:
    """Header values that an endpoint repeats in its error are redacted."""
    step = Status(401, b'{"error": {"message": "bad key gw-secret"}}')
    error = failure(step, headers=(("api-key", "gw-secret"),), attempts=1)
    assert str(error) == "status 401: bad key [key]"


def test_without_a_price_there_is_no_cost() -> None:
    """A cost is known only if a price is set, except the cost of a request that took no tokens."""
    with a_model("fine") as server:
        assert ask(server.base_url).usage.cost_usd is None
    refused = failure(Status(500), attempts=1).usage
    assert isinstance(refused, Usage)
    assert refused.cost_usd == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("tokens", [-1, 10**30])
def test_counts_that_cannot_be_are_none(protocol: Protocol, tokens: int) -> None:
    """What no request can take is as if the endpoint had not counted: no sum of it would fit anywhere."""
    with a_model(Says("fine", output_tokens=tokens)) as server:
        usage = ask(server.base_url, protocol).usage
    assert (usage.input_tokens, usage.output_tokens) == (100, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_to_a_prompt_of_no_tokens_has_an_unknown_cost(protocol: Protocol) -> None:
    """Gateways that count no tokens report zeros: such a call is not free, and budgets count its highest cost."""
    price = Price(input_usd_per_million=1, output_usd_per_million=2)
    with a_model(Says("fine", input_tokens=0, output_tokens=0)) as server:
        usage = ask(server.base_url, protocol, price=price).usage
    assert (usage.calls, usage.input_tokens, usage.cost_usd) == (1, None, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("code", [400, 404, 422])
def test_an_endpoint_without_structured_output_is_asked_without(protocol: Protocol, code: int) -> None:
    """A refused form is left out, and the endpoint is not bothered with it again."""

    def script(request: ModelRequest) -> Step:
        return Status(code) if request.schema else Says("plain")

    with a_model(script) as server:
        first, second = ask_each(server.base_url, protocol, 2)
    assert (first.answer.text, second.answer.text) == ("plain", "plain")
    assert [request.schema is not None for request in server.requests] == [True, False, False]
    assert (first.usage.calls, second.usage.calls) == (2, 1)


def test_a_request_that_is_refused_in_every_form_fails_and_forms_are_tried_again() -> None:
    """Two refusals are one failure, and prove nothing against structured output."""
    with a_model([Status(400), Status(400), Says("ok")]) as server:
        with pytest.raises(ModelCallFailed, match="status 400: scripted"):
            ask(server.base_url)
        ask(server.base_url)
    assert [request.schema is not None for request in server.requests] == [True, False, True]


def ask_all(base_url: str, times: int) -> list[bool]:
    """Send `times` requests with one client; return for each whether it was answered."""
    connection = ModelConnection(base_url=base_url, model="m", protocol="CHAT_COMPLETIONS")

    async def asks() -> list[bool]:
        async with ChatModel(connection) as model:
            outcomes = []
            for _ in range(times):
                try:
                    await model.ask(PROMPT, SCHEMA)
                    outcomes.append(True)
                except ModelCallFailed:
                    outcomes.append(False)
            return outcomes

    return asyncio.run(asks())


def test_what_is_refused_alike_without_a_schema_is_asked_once() -> None:
    """A refusal whose words, but for numbers, came without a schema, too, costs one call; one in twenty costs two."""
    with a_model(lambda _: Status(400, f'{{"error": "Bad Request, id=a{len(server.requests)}"}}'.encode())) as server:
        ask_all(server.base_url, 21)
    without = [at for at, request in enumerate(server.requests) if request.schema is None]
    assert (len(server.requests), without) == (23, [1, 22])


@pytest.mark.parametrize("param, calls", [("messages", 1), ("response_format", 2), ("text.format.schema", 2), ("", 2)])
def test_a_refusal_of_another_part_is_not_asked_again(param: str, calls: int) -> None:
    """A request is sent without a schema only if the endpoint may mean the schema."""
    body = json.dumps({"error": {"message": "no", "param": param}}).encode()
    with a_model(Status(400, body=body)) as server:
        ask_all(server.base_url, 1)
    assert len(server.requests) == calls


def test_a_schema_that_is_refused_in_the_words_of_an_earlier_refusal_is_left_out_in_the_end() -> None:
    """A request that was refused in every form proves nothing about the schema of later ones."""
    with a_model(
        lambda request: Status(400) if request.schema or len(server.requests) <= 2 else Says("plain")
    ) as server:
        assert ask_all(server.base_url, 22) == [False] * 20 + [True] * 2
    assert server.requests[-1].schema is None


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(code: int) -> None:
    """Time-outs, conflicts, limits and server errors are retried, as soon as the endpoint allows."""
    with a_model([Status(code, headers=AT_ONCE), Status(code, headers=AT_ONCE), Says("at last")]) as server:
        answered = ask(server.base_url)
    assert answered.answer.text == "at last"
    assert answered.usage.calls == 3


@pytest.mark.parametrize(
    "code,kind", [(408, "timeout"), (409, "unavailable"), (429, "rate_limited"), (500, "unavailable")]
)
def test_attempts_are_bounded(code: int, kind: str) -> None:
    """After the last attempt the failure says what the endpoint said."""
    with a_model(Status(code, headers=AT_ONCE)) as server, pytest.raises(ModelCallFailed, match=str(code)) as raised:
        ask(server.base_url, attempts=3)
    assert raised.value.kind == kind
    assert len(server.requests) == 3


@pytest.mark.parametrize("code", [302, 401, 403, 413])
def test_what_will_not_pass_fails_at_once(code: int) -> None:
    """Other errors, and redirects, are final."""
    headers = {"Location": "http://127.0.0.1:9/elsewhere"}
    with a_model(Status(code, headers=headers)) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url)
    assert raised.value.kind == ("not_served" if code in {401, 403} else "refused")
    assert str(raised.value) == f"status {code}: scripted"
    assert len(server.requests) == 1


def test_the_endpoint_says_how_long_to_wait() -> None:
    """Retry-After is kept to, in seconds."""
    with a_model([Status(429, headers={"Retry-After": "1"}), Says("ok")]) as server:
        started = time.monotonic()
        ask(server.base_url)
    assert time.monotonic() - started >= 1.0


def test_a_long_wait_is_left_to_the_caller() -> None:
    """An endpoint that asks for more patience than a call has fails with the time it asked for."""
    limited = failure(Status(429, headers={"Retry-After": "3600"}))
    assert (limited.kind, limited.retry_after_s) == ("rate_limited", 3600)


@pytest.mark.parametrize(
    "headers,seconds",
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": "2", "retry-after-ms": "50"}, 0.05),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:07 GMT"}, 7),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT"}, 0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_wait_is_read_in_every_form(headers: Mapping[str, str], seconds: float | None) -> None:
    """Retry-After is seconds or a date; nonsense is as if it were missing."""
    assert wait_asked_for(headers, now_s=1_795_255_200) == seconds


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "step",
    [
        Sends(b'{"half": '),
        Sends(b"[]"),
        Sends(b"null"),
        Sends(b"{}"),
        Sends(b'{"choices": []}'),
        Sends(b'{"choices": [{"message": null}]}'),
        Sends(b'{"output": 7}'),
        Sends(b"[" * 100_000),
        Sends(b'data: {"choices": []}\n\n', "text/event-stream"),
        Streams(),
    ],
)
def test_what_is_not_the_protocol_is_a_bad_reply(protocol: Protocol, step: Step) -> None:
    """Garbage, half a document, other JSON and streams without an end fail as data, once."""
    with a_model(step) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, protocol)
    assert raised.value.kind == "bad_reply"
    assert len(server.requests) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "error,kind",
    [
        ({"message": "Provider returned error", "code": 429}, "rate_limited"),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limited"),
        ({"message": "slow down", "status": "RESOURCE_EXHAUSTED", "code": "429"}, "rate_limited"),
        ({"message": "overloaded"}, "unavailable"),
        ({"type": "overloaded_error"}, "unavailable"),
        ("out of memory", "unavailable"),
        ({"message": "bad key", "type": "authentication_error"}, "not_served"),
        ({"message": "filtered", "code": "content_filter"}, "declined"),
    ],
)
def test_an_error_with_status_200_is_that_error(protocol: Protocol, error: object, kind: str) -> None:
    """A gateway that answered before it knew is heard, whatever else its response has, and nothing is charged."""
    document = {"status": "failed", "output": [], "content": [], "choices": [], "error": error}
    with a_model(Sends(json.dumps(document).encode())) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, protocol, attempts=2)
    assert raised.value.kind == kind
    assert len(server.requests) == (2 if kind in RETRYABLE else 1)
    assert isinstance(raised.value.usage, Usage)
    assert (raised.value.usage.input_tokens, raised.value.usage.output_tokens) == (0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("more", [{}, {"error": {"message": "Provider returned error", "code": 502}}])
def test_a_response_that_is_no_answer_costs_what_its_usage_says(protocol: Protocol, more: Mapping[str, object]) -> None:
    """With `usage` a body that is garbage or an error is charged for these tokens, and not for all that is reserved."""
    names = (
        ("prompt_tokens", "completion_tokens") if protocol == "CHAT_COMPLETIONS" else ("input_tokens", "output_tokens")
    )
    body = json.dumps({"usage": dict(zip(names, (7, 3), strict=True)), **more}).encode()
    with a_model(Sends(body)) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, protocol, attempts=1)
    assert isinstance(raised.value.usage, Usage)
    assert (raised.value.usage.input_tokens, raised.value.usage.output_tokens) == (7, 3)


def test_a_filter_with_status_400_is_no_refusal() -> None:
    """Azure's answer to a filtered prompt is reported as declined, and not retried."""
    body = b'{"error": {"code": "content_filter", "status": 400, "message": "The response was filtered"}}'
    with a_model(Status(400, body=body)) as server, pytest.raises(ModelCallFailed, match="filtered") as raised:
        ask(server.base_url)
    assert raised.value.kind == "declined"
    assert len(server.requests) == 1


@pytest.mark.parametrize("has_param", [True, False])
def test_a_parameter_that_a_model_refuses_is_renamed_or_left_out(*, has_param: bool) -> None:
    """The model is asked again without the parameter, this is remembered, and the omission changes the fingerprint."""

    def script(request: ModelRequest) -> Step:
        for name, message in (
            ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
            ("temperature", "Unsupported value: 'temperature' does not support 0. Only the default is supported."),
        ):
            if name in request.body:
                error = {"message": message} | ({"param": name} if has_param else {})
                return Status(400, body=json.dumps({"error": error}).encode())
        return Says("fine")

    async def asks(base_url: str) -> list[Mapping[str, object]]:
        connection = ModelConnection(
            base_url=base_url, model="m", protocol="CHAT_COMPLETIONS", max_output_tokens=50, temperature=0.0
        )
        async with ChatModel(connection) as model:
            parameters: list[Mapping[str, object]] = [model.parameters]
            for _ in range(2):
                assert (await model.ask(PROMPT, SCHEMA)).answer.text == "fine"
                parameters.append(model.parameters)
        return parameters

    with a_model(script) as server:
        assert asyncio.run(asks(server.base_url)) == [{"temperature": 0.0}, {}, {}]
    assert len(server.requests) == 4
    assert all(request.schema is not None for request in server.requests)
    assert server.requests[-1].body["max_completion_tokens"] == 50


def test_a_value_that_is_too_large_is_no_unknown_parameter() -> None:
    """Only what a model does not take is sent otherwise."""
    body = b'{"error": {"message": "max_tokens is too large: 50000", "param": "max_tokens"}}'
    with a_model(Status(400, body=body)) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, "CHAT_COMPLETIONS", max_output_tokens=50_000)
    assert raised.value.kind == "refused"
    assert not any("max_completion_tokens" in request.body for request in server.requests)


def test_an_answer_has_a_bound() -> None:
    """A body that goes on for ever is cut off by its size, long before the time is up."""
    endless = failure(Streams(chunk=b" " * (1 << 20)), timeout_s=60)
    assert str(ANSWER_BYTES >> 20) in str(endless)
    long_error = failure(Streams(chunk=b"no " * 1000, code=403), timeout_s=60)
    assert long_error.kind == "not_served"
    assert len(str(long_error)) < 400


@pytest.mark.parametrize("step", [Hangs(), Streams(chunk=b" ", pause_s=0.02)])
def test_time_has_a_bound(step: Step) -> None:
    """A server that is silent, or sends a byte now and then, is left after the time limit."""
    started = time.monotonic()
    late = failure(step, timeout_s=0.3, attempts=1)
    assert (late.kind, str(late)) == ("timeout", "no answer within 0.3 s")
    assert time.monotonic() - started < 30  # of a step without an end


def test_nobody_there_is_unreachable() -> None:
    """A closed port is reported as unreachable, not as a refusal."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ModelCallFailed) as raised:
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", attempts=2)
    assert raised.value.kind == "unreachable"


def test_a_connection_that_ends_half_way_is_unreachable() -> None:
    """Half a body is not an answer, even if the received part is valid JSON."""
    assert failure(HalfSends(b'{"choices": []}'), attempts=1).kind == "unreachable"


@pytest.mark.parametrize(
    "body,why",
    [
        ({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, "I cannot."),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}, "content filter"),
    ],
)
def test_a_model_that_declines_says_so(body: object, why: str) -> None:
    """A refusal is reported with the model's own words."""
    with a_model(Sends(json.dumps(body).encode())) as server:
        answer = ask(server.base_url).answer
    assert answer.refusal is not None
    assert why in answer.refusal


def test_a_response_may_decline_or_be_cut_off() -> None:
    """The Responses protocol has refusals as parts, and its own word for running out of tokens."""
    part = {"type": "refusal", "refusal": "No."}
    refused = {"status": "completed", "output": [{"type": "message", "content": [part]}]}
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    filtered = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}
    with a_model([Sends(json.dumps(body).encode()) for body in (refused, cut, filtered)]) as server:
        answers = [answered.answer for answered in ask_each(server.base_url, "RESPONSES", 3)]
    assert [(bool(answer.refusal), answer.is_cut_off) for answer in answers] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_the_key_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """The endpoint gets the key; messages, representations and logs at every level do not."""
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"bad key {KEY} and {KEY.replace('+', '%2B')}"}}).encode()
    with a_model(Status(401, body=echo)) as server, pytest.raises(ModelCallFailed) as raised:
        ask(server.base_url, key=KEY)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    connection = ModelConnection(base_url=server.base_url, model="m", key=KEY)
    shown = [str(raised.value), repr(raised.value), repr(connection), repr(ChatModel(connection)), caplog.text]
    assert "[key]" in shown[0]
    assert KEY not in "".join([*shown, *capfd.readouterr()])


@pytest.mark.parametrize("key", [None, KEY])
def test_nothing_of_another_provider_is_sent(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """An endpoint gets its own key or none, whatever the environment holds for others."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "http://stray.example")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer stray.example\nX-Team: stray.example")
    with a_model("fine") as server:
        ask(server.base_url, key=key)
    headers = server.requests[0].headers
    assert headers.get("authorization") == (None if key is None else f"Bearer {key}")
    assert headers["user-agent"] == "tracejury-judge"
    assert "stray.example" not in str(headers)
    assert not [name for name in headers if name.startswith(("x-", "openai-"))]


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"base_url": "ftp://example.com"}, "baseUrl must be http"),
        ({"base_url": "localhost:8000"}, "baseUrl must be http"),
        ({"base_url": "http://user:pass@example.com"}, "no credentials"),
        ({"base_url": "http://example.com/v1?key=x"}, "no credentials, query"),
        ({"model": " "}, "model must not be blank"),
        ({"key": "two words"}, "the key must be"),
        ({"key": ""}, "the key must be"),
    ],
)
def test_a_connection_that_cannot_work_is_refused(settings: Mapping[str, str], words: str) -> None:
    """What no request could use is refused before one is made, without showing secrets."""
    with pytest.raises(BadConnection, match=words) as raised:
        replace(ModelConnection(base_url="http://127.0.0.1:1/v1", model="m"), **settings)  # type: ignore[arg-type]
    assert "pass@" not in str(raised.value)
    assert "two words" not in str(raised.value)


@pytest.mark.parametrize("in_flight", [3, 20])
def test_requests_in_flight_are_bounded(in_flight: int) -> None:
    """However many questions are asked at once, the endpoint sees as many as it was promised, over several clients."""
    seen: list[int] = []
    running: list[object] = []

    def script(_: ModelRequest) -> Step:
        running.append(None)
        seen.append(len(running))
        time.sleep(0.02)
        running.pop()
        return Says("ok")

    async def run(base_url: str) -> None:
        async with ChatModel(ModelConnection(base_url=base_url, model="m", in_flight=in_flight)) as model:
            await asyncio.gather(*(model.ask(PROMPT, SCHEMA) for _ in range(4 * in_flight)))

    with a_model(script) as server:
        asyncio.run(run(server.base_url))
    assert len(seen) == 4 * in_flight
    assert max(seen) <= in_flight
