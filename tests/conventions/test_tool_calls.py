"""The tool calls of a trace: each once, in order, with the id that it has and none that it has not."""

from collections.abc import Sequence
from typing import Any

import pytest

from storage.records import Span, TraceReading
from tests.conventions.making import SECOND_NS, Attributes, a_log, a_span, call, read_all, response, text

OSLO: dict[str, Any] = {"city": "Oslo"}
BERGEN: dict[str, Any] = {"city": "Bergen"}
FAILED = "Error: declined"


def a_model(*messages: Any, sent: Any = (), **fields: Any) -> Span:
    """Build a model's call that answers with messages."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": list(messages)}
    return a_span(attributes | ({"gen_ai.input.messages": list(sent)} if sent else {}), **fields)


def a_run(
    arguments: Any = None, call_id: str | None = None, result: Any = None, name: str = "f", **fields: Any
) -> Span:
    """Build a tool's run."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    more = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.id": call_id, "gen_ai.tool.call.result": result}
    return a_span(attributes | {key: value for key, value in more.items() if value is not None}, **fields)


def requesting(*calls: tuple[Any, str | None]) -> Any:
    """Return one answer that asks for several calls of `f`."""
    parts = [{"type": "tool_call", "id": call_id, "name": "f", "arguments": arguments} for arguments, call_id in calls]
    return {"role": "assistant", "parts": parts}


def listed(reading: TraceReading, *names: str) -> list[Any]:
    """Return some fields of each call."""
    calls = [tuple(getattr(one, name) for name in names) for one in reading.tool_calls]
    return [one[0] for one in calls] if len(names) == 1 else calls


def test_a_call_in_a_message_and_as_a_span_is_one() -> None:
    """Joined by its id, it has the span's times and result."""
    root = a_span()
    run = a_run(OSLO, "c1", "sun", parent=root, start_s=2)
    reading = read_all(root, a_model(call("f", OSLO, "c1"), parent=root, start_s=1), run)
    [one] = reading.tool_calls
    assert (one.call_id, one.name, one.arguments, one.result) == ("c1", "f", OSLO, "sun")
    assert (one.span_id, one.start_ns, one.end_ns, one.is_error) == (run.span_id, run.start_ns, run.end_ns, False)


def test_a_call_known_from_messages_alone_has_the_span_of_its_model() -> None:
    """It starts when the model has answered, never ends, and has the result that the model is sent next."""
    first = a_model(call("f", OSLO, "c1"), start_s=1)
    second = a_model(text("assistant", "Sunny."), sent=[call("f", OSLO, "c1"), response("sun", "c1")], start_s=2)
    [one] = read_all(first, second).tool_calls
    assert (one.span_id, one.start_ns, one.end_ns, one.result) == (first.span_id, first.end_ns, None, "sun")


@pytest.mark.parametrize("argument", [OSLO, '{"city": "Oslo"}', "{'city': 'Oslo'}", "Oslo", None])
def test_a_run_without_an_id_is_paired_by_name_and_arguments(argument: Any) -> None:
    """OpenInference and MLflow know no call ids; LangChain hands on the only argument bare."""
    root = a_span()
    spans = [a_model(call("f", OSLO, "c1"), parent=root, start_s=1), a_run(argument, parent=root, start_s=2)]
    [one] = read_all(root, *spans).tool_calls
    assert (one.call_id, one.arguments) == ("c1", OSLO)


def test_defaults_that_a_framework_adds_do_not_hinder_pairing() -> None:
    """The arguments of the run are those of the call and more."""
    spans = [a_model(call("f", OSLO, "c1"), start_s=1), a_run(OSLO | {"days": 1}, start_s=2)]
    assert listed(read_all(*spans), "call_id", "arguments") == [("c1", OSLO | {"days": 1})]


def test_other_arguments_are_another_call() -> None:
    """What the model asked for was not run, and what ran was not asked for."""
    spans = [a_model(call("f", OSLO, "c1"), start_s=1), a_run(BERGEN, start_s=2)]
    assert listed(read_all(*spans), "call_id", "arguments") == [("c1", OSLO), (None, BERGEN)]


def test_parallel_runs_are_told_apart_by_their_arguments() -> None:
    """Whichever started first, each has its own id, and they are in the order of the answer."""
    root = a_span()
    model = a_model(requesting((OSLO, "c1"), (BERGEN, "c2")), parent=root, start_s=1)
    runs = [a_run(BERGEN, parent=root, start_s=2, result="b"), a_run(OSLO, parent=root, start_s=3, result="o")]
    reading = read_all(root, model, *runs)
    assert listed(reading, "call_id", "arguments", "result") == [("c1", OSLO, "o"), ("c2", BERGEN, "b")]


def test_equal_runs_are_paired_in_their_order() -> None:
    """Two indistinguishable calls and two runs are paired in their order."""
    root = a_span()
    model = a_model(requesting((OSLO, "c1"), (OSLO, "c2")), parent=root, start_s=1)
    reading = read_all(root, model, a_run(OSLO, parent=root, start_s=2), a_run(OSLO, parent=root, start_s=3))
    assert listed(reading, "call_id") == ["c1", "c2"]


def test_equal_runs_in_steps_of_their_own_are_paired_in_their_order() -> None:
    """As those of LlamaIndex's agents."""
    root = a_span()
    model = a_model(requesting((OSLO, "c1"), (OSLO, "c2")), parent=root, start_s=1)
    steps = [a_span(parent=root, start_s=second) for second in (2, 3)]
    runs = [a_run(OSLO, parent=step, start_s=number + 2) for number, step in enumerate(steps)]
    assert listed(read_all(root, model, *steps, *runs), "call_id") == ["c1", "c2"]


def test_an_ambiguous_run_has_no_id() -> None:
    """If one of two equal calls ran, it is unknown which, so neither has an id, and there are two."""
    root = a_span()
    model = a_model(requesting((OSLO, "c1"), (OSLO, "c2")), parent=root, start_s=1)
    reading = read_all(root, model, a_run(OSLO, parent=root, start_s=2))
    assert listed(reading, "call_id") == [None, None]
    assert None in listed(reading, "end_ns")


def test_runs_without_arguments_are_paired_by_their_number() -> None:
    """As many runs as calls are paired in order; one of two is ambiguous, and there are two calls."""
    root = a_span()
    model = a_model(requesting((OSLO, "c1"), (BERGEN, "c2")), parent=root, start_s=1)
    runs = [a_run(parent=root, start_s=second) for second in (2, 3)]
    assert listed(read_all(root, model, *runs), "call_id", "arguments") == [("c1", OSLO), ("c2", BERGEN)]
    assert listed(read_all(root, model, runs[0]), "call_id") == [None, None]


def test_an_id_joins_whatever_the_tool_is_called() -> None:
    """Semantic Kernel names a tool after its plugin; an id with another name and other arguments is another call."""
    renamed = a_run(OSLO, "c1", name="plugin-f", start_s=2)
    model = a_model(call("f", OSLO, "c1"), start_s=1)
    assert listed(read_all(model, renamed), "name") == ["plugin-f"]
    assert listed(read_all(model, a_run(None, "c1", name="g", start_s=2)), "name") == ["g"]
    assert listed(read_all(model, a_run(BERGEN, "c1", name="g", start_s=2)), "name") == ["f", "g"]


def test_more_runs_than_calls_are_all_listed() -> None:
    """A run that was tried again is there twice, and none is given the id by chance."""
    root = a_span()
    runs = [a_run(OSLO, parent=root, start_s=second) for second in (2, 3)]
    assert listed(read_all(root, a_model(call("f", OSLO, "c1"), parent=root, start_s=1), *runs), "call_id") == [
        None,
        None,
    ]


def test_a_later_round_is_paired_with_its_own_call() -> None:
    """If the model requests the same call twice in a row, each run belongs to the request before it."""
    root = a_span()
    spans = []
    for number in (1, 2):
        spans.append(a_model(call("f", OSLO, f"c{number}"), parent=root, start_s=2 * number))
        spans.append(a_run(OSLO, parent=root, start_s=2 * number + 1, result=f"r{number}"))
    assert listed(read_all(root, *spans), "call_id", "result") == [("c1", "r1"), ("c2", "r2")]


def test_runs_belong_to_the_agent_that_asked() -> None:
    """Two agents at once ask for the same: the nearest span above both model and run decides."""
    root = a_span()
    spans = []
    for number in (1, 2):
        agent = a_span({"gen_ai.operation.name": "invoke_agent"}, parent=root, start_s=number)
        step = a_span(parent=agent, start_s=number)
        spans += [agent, step, a_model(call("f", OSLO, f"c{number}"), parent=step, start_s=number)]
        spans.append(a_run(OSLO, parent=agent, start_s=10 - number, result=f"r{number}"))
    assert sorted(listed(read_all(root, *spans), "call_id", "result")) == [("c1", "r1"), ("c2", "r2")]


def test_what_a_tool_runs_comes_after_it() -> None:
    """A call within a call, whose clock is behind, is listed after the one it is in."""
    outer = a_run(OSLO, "c1", name="outer", start_s=5)
    inner = a_run(OSLO, "c2", name="inner", parent=outer, start_s=4)
    assert listed(read_all(inner, outer), "ordinal", "name") == [(0, "outer"), (1, "inner")]


def test_two_instrumentations_of_one_run_are_one_call() -> None:
    """The inner span fills in what the outer does not tell; a tool below another model is another call."""
    outer = a_run(OSLO, name="f", start_s=1)
    inner = a_run(OSLO, "c1", "sun", name="f", parent=outer, start_s=1)
    assert listed(read_all(outer, inner), "span_id", "call_id", "result") == [(outer.span_id, "c1", "sun")]
    model = a_model(call("f", OSLO), parent=outer, start_s=2)
    recursive = a_run(OSLO, name="f", parent=model, start_s=3)
    assert len(read_all(outer, model, recursive).tool_calls) == 2


def test_a_call_executed_again_under_its_id_is_two_executions() -> None:
    """A retry after an error, and a payment made twice, are listed twice, whatever the libraries give as ids."""
    failed = a_run(OSLO, "c1", "timeout", start_s=1, status_code=2, status_message="timeout")
    again = [failed, a_run(OSLO, "c1", "paid", start_s=2)]
    assert listed(read_all(*again), "call_id", "result", "is_error") == [
        ("c1", "timeout", True),
        ("c1", "paid", False),
    ]
    at_once = [a_run(OSLO, "c1", "paid", start_s=1), a_run(OSLO, "c1", "paid", start_s=1.1)]
    assert listed(read_all(*at_once), "call_id") == ["c1", "c1"]
    reused = [a_run(OSLO, "call_0", start_s=1), a_run(BERGEN, "call_0", start_s=2)]
    assert listed(read_all(*reused), "arguments") == [OSLO, BERGEN]


def test_executions_of_one_request_share_it_and_the_last_has_its_response() -> None:
    """Each execution has the requested arguments, the last one the response, and all are listed in execution order."""
    model = a_model(requesting((OSLO, "c1"), (BERGEN, "c2")), start_s=0)
    runs = [
        a_run(None, "c1", start_s=1, status_code=2),
        a_run(BERGEN, "c2", "b", start_s=2),
        a_run(None, "c1", start_s=3),
    ]
    sent = [requesting((OSLO, "c1"), (BERGEN, "c2")), response("o", "c1"), response("b", "c2")]
    for spans in ([model, *runs, a_model(text("assistant", "x"), sent=sent, start_s=5)],
                  [*runs, a_model(text("assistant", "x"), sent=sent, start_s=5)]):  # fmt: skip
        assert listed(read_all(*spans), "call_id", "arguments", "result", "is_error", "has_result") == [
            ("c1", OSLO, None, True, False),
            ("c2", BERGEN, "b", False, True),
            ("c1", OSLO, "o", False, True),
        ]


def test_an_execution_within_one_of_the_same_id_is_the_same() -> None:
    """The span of a client within that of a framework, or of an agent that has its tool's id, adds no execution."""
    outer = a_run(OSLO, "c1", "sun", start_s=1, end_ns=20 * SECOND_NS, scope="framework")
    agent = a_span({"gen_ai.operation.name": "invoke_agent"}, parent=outer, start_s=1)
    for inner in (a_run(OSLO, "c1", parent=outer, start_s=2), a_run(OSLO, "c1", parent=agent, start_s=2)):
        assert listed(read_all(outer, agent, inner), "span_id", "result") == [(outer.span_id, "sun")]


def test_executions_one_after_the_other_within_a_wrapper_are_two() -> None:
    """A client that tries again within the span of a framework executes twice, and the second one did not fail."""
    outer = a_run(OSLO, "c1", start_s=1, end_ns=20 * SECOND_NS, scope="framework")
    failed = a_run(None, None, parent=outer, start_s=2, status_code=2, status_message="timeout", scope="client")
    paid = a_run(None, None, "paid", parent=outer, start_s=4, scope="client")
    assert listed(read_all(outer, failed, paid), "call_id", "arguments", "error", "result") == [
        ("c1", OSLO, "timeout", None),
        ("c1", OSLO, None, "paid"),
    ]


def test_two_libraries_that_report_two_executions_report_two() -> None:
    """Each execution by both, whether or not the spans of one lie exactly within those of the other."""
    spans = [
        a_run(OSLO, "c1", start_s=second + late_s, scope=scope)
        for second in (1, 2)
        for scope, late_s in (("one", 0), ("other", 0.2))
    ]
    assert listed(read_all(*spans), "span_id") == [spans[0].span_id, spans[2].span_id]


def test_wrappers_that_repeat_their_models_add_no_calls() -> None:
    """An agent whose message holds the whole run, and a model's span around another, tell the same calls again."""
    agent = a_span(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.output.messages": [call("f", OSLO), response("sun"), text("assistant", "Sunny.")],
        }
    )
    outer = a_model(call("f", OSLO), parent=agent, start_s=1)
    inner = a_model(call("f", OSLO), parent=outer, start_s=1)
    assert listed(read_all(agent, outer, inner), "span_id") == [inner.span_id]
    assert listed(read_all(agent), "arguments", "result") == [(OSLO, "sun")]


def test_history_is_no_call_where_anything_else_tells_it() -> None:
    """What a model is sent repeats earlier answers, and earlier turns are not of this trace at all."""
    earlier = [text("user", "Before?"), call("f", BERGEN, "c0"), response("b", "c0"), text("assistant", "Cold.")]
    request = text("user", "And now?")
    first = a_model(call("f", OSLO, "c1"), sent=[*earlier, request], start_s=1)
    second = a_model(
        text("assistant", "Hot."), sent=[*earlier, request, call("f", OSLO, "c1"), response("o", "c1")], start_s=2
    )
    assert listed(read_all(first, second), "call_id", "result") == [("c1", "o")]
    assert listed(read_all(second), "call_id", "result") == []
    assert listed(read_all(second, a_run(OSLO, start_s=1, result="o")), "call_id", "result") == [("c1", "o")]


def a_retry(*, answers: bool = True, own_id: str | None = None) -> list[Span]:
    """Return a model that was sent a failed call and requests it again, and the run of that if it has an id."""
    sent = [text("user", "Pay."), call("f", OSLO, "c1"), response(FAILED, "c1")]
    answer = [call("f", OSLO, "c2")] if answers else []
    run = [a_run(OSLO, own_id, start_s=3)] if own_id else []
    return [a_model(*answer, sent=sent, start_s=1), *run]


@pytest.mark.parametrize(
    "spans, expected",
    [
        (a_retry(), "c2"),
        (a_retry(own_id="c2"), "c2"),
        (a_retry(answers=False, own_id="run-7"), "run-7"),
        ([*a_retry(), a_model(sent=[call("f", OSLO, "c1"), response(FAILED, "c1")], start_s=2)], "c2"),
    ],
)
def test_a_retry_has_no_result_of_the_call_that_failed(spans: list[Span], expected: str | None) -> None:
    """A call whose result a model was sent has run, and is neither its answer nor a run that begins later."""
    reading = read_all(*spans)
    assert listed(reading, "call_id", "result", "is_error") == [(expected, None, False)]
    assert [(one.call_id, one.result) for one in reading.earlier_calls] == [("c1", FAILED)]


@pytest.mark.parametrize("arguments", [OSLO, None])
def test_a_run_without_an_id_is_no_call_whose_result_was_sent_before(arguments: Any) -> None:
    """It has neither the id nor the result of that call."""
    reading = read_all(*a_retry(answers=False), a_run(arguments, start_s=3))
    assert listed(reading, "call_id", "result", "is_error") == [(None, None, False)]


def test_calls_without_ids_have_their_results_by_order() -> None:
    """Gemini's older messages name the function only."""
    calls: Any = [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": one}} for one in (OSLO, BERGEN)]}]
    results: Any = [
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"is": one}}} for one in "ob"]}
    ]
    first = a_model(*calls, start_s=1)
    second = a_model(text("assistant", "x"), sent=[text("user", "q"), *calls, *results], start_s=2)
    assert listed(read_all(first, second), "call_id", "arguments", "result") == [
        (None, OSLO, {"is": "o"}),
        (None, BERGEN, {"is": "b"}),
    ]


def test_a_result_with_another_id_is_that_of_the_only_call() -> None:
    """OpenLLMetry names calls of the responses API by the item, and results by the call."""
    first = a_model(call("f", OSLO, "fc_1"), start_s=1)
    second = a_model(text("assistant", "x"), sent=[call("f", OSLO, "fc_1"), response("sun", "call_1")], start_s=2)
    assert listed(read_all(first, second), "call_id", "result") == [("fc_1", "sun")]


def test_results_without_ids_belong_to_the_first_calls_of_their_name() -> None:
    """Google's client gives the automatic calls in an answer ids, and their results none."""
    parts = [{**response(result)["parts"][0], "name": "f"} for result in ("o", "b")]
    results = {"role": "tool", "parts": parts}
    answer = a_model(requesting((OSLO, "c1"), (BERGEN, "c2")), results, text("assistant", "x"))
    assert listed(read_all(answer), "call_id", "arguments", "result") == [("c1", OSLO, "o"), ("c2", BERGEN, "b")]


def turns(*exchanges: tuple[Any, str], call_id: str = "call_0", before: Sequence[Any] = ()) -> list[Span]:
    """Return models that get all earlier messages and make one call each, under one id; the last one answers."""
    sent = [*before, text("user", "Pay.")]
    spans = []
    for number, (arguments, result) in enumerate(exchanges):
        spans.append(a_model(requesting((arguments, call_id)), sent=sent, start_s=number))
        sent = [*sent, requesting((arguments, call_id)), response(result, call_id)]
    return [*spans, a_model(text("assistant", "Done."), sent=sent, start_s=len(exchanges))]


@pytest.mark.parametrize("other", [BERGEN, OSLO], ids=["other arguments", "equal arguments"])
@pytest.mark.parametrize("results", [("paid", FAILED), (FAILED, "paid"), ("paid", "paid")])
def test_calls_that_share_an_id_have_each_its_own_result(results: tuple[str, str], other: Any) -> None:
    """Some models number the calls of each answer from 0; what later models are sent again is not a further call."""
    first, second = results
    reading = read_all(*turns((OSLO, first), (other, second)))
    assert listed(reading, "arguments", "result", "is_error") == [
        (OSLO, first, first == FAILED),
        (other, second, second == FAILED),
    ]


def test_a_result_is_not_that_of_an_earlier_turn_with_its_id() -> None:
    """A history from earlier traces has results under the same id, before the call was requested."""
    for arguments in (BERGEN, OSLO):
        before = [text("user", "Pay."), requesting((arguments, "call_0")), response(FAILED, "call_0")]
        reading = read_all(*turns((OSLO, "paid"), before=before))
        assert listed(reading, "arguments", "result") == [(OSLO, "paid")]


def test_results_without_their_calls_are_of_the_latest_call_of_their_id() -> None:
    """An endpoint that keeps the conversation is sent nothing but results, and some are sent again."""
    spans = [
        a_model(requesting((OSLO, "call_0")), start_s=0),
        a_model(requesting((BERGEN, "call_0")), sent=[response("paid", "call_0")], start_s=1),
        a_model(text("assistant", "?"), sent=[response("paid", "call_0"), response(FAILED, "call_0")], start_s=2),
    ]
    assert listed(read_all(*spans), "arguments", "result") == [(OSLO, "paid"), (BERGEN, FAILED)]


def test_two_calls_of_one_answer_with_one_id_have_their_results_in_order() -> None:
    """A model that gives every call the id 0 is sent the results in the order of its calls."""
    both = requesting((OSLO, "0"), (BERGEN, "0"))
    sent = [text("user", "Pay."), both, response("paid", "0"), response(FAILED, "0")]
    reading = read_all(a_model(both), a_model(text("assistant", "Done."), sent=sent, start_s=1))
    assert listed(reading, "arguments", "result") == [(OSLO, "paid"), (BERGEN, FAILED)]
    silent = a_model(sent=sent[:1])
    reading = read_all(silent, a_model(text("assistant", "Done."), sent=sent, start_s=1))
    assert listed(reading, "arguments", "result") == [(OSLO, "paid"), (BERGEN, FAILED)]


def test_answers_that_repeat_what_was_called_before_add_no_calls() -> None:
    """Steps whose answers hold the state so far tell a call again and again, with one result."""
    one = requesting((OSLO, "call_0"))
    state = [one, response("paid", "call_0")]
    spans = [
        a_model(one, start_s=0),
        a_model(*state, text("assistant", "Hm."), sent=[text("user", "Pay."), *state], start_s=1),
        a_model(*state, text("assistant", "Done."), sent=[text("user", "Pay."), *state], start_s=2),
    ]
    assert listed(read_all(*spans), "call_id", "result") == [("call_0", "paid")]


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"status_code": 2, "status_message": "timed out"}, "timed out"),
        ({"status_code": 2}, "failed without a message"),
        ({"status_code": 1, "result": "Error: unknown city"}, "Error: unknown city"),
        ({"result": '{"error": "unknown city"}'}, '{"error": "unknown city"}'),
        ({"result": '{"content": [{"type": "text", "text": "unknown city"}], "isError": true}'}, "unknown city"),
        ({"result": "sun"}, None),
        ({"result": []}, None),
    ],
)
def test_failures_are_known_with_and_without_a_status(fields: Any, error: str | None) -> None:
    """A tool call fails by its status, or by its result."""
    [one] = read_all(a_run(OSLO, "c1", **fields)).tool_calls
    assert (one.is_error, one.error) == (error is not None, error)


def test_a_failure_told_in_a_message_alone_is_one() -> None:
    """Anthropic flags results, and others write the error as text."""
    failed: Any = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}],
    }
    for message in (failed, response("Error: unknown city", "c1")):
        second = a_model(text("assistant", "x"), sent=[call("f", OSLO, "c1"), message], start_s=2)
        assert listed(read_all(a_model(call("f", OSLO, "c1"), start_s=1), second), "is_error") == [True]


def test_merged_and_announced_tools_are_no_calls() -> None:
    """ADK's span of merged results, and Logfire's span that is sent again when it has ended."""
    merged: Attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    pending = a_run(OSLO, "c1")
    announced = a_span({**pending.attributes, "logfire.span_type": "pending_span"})
    reading = read_all(a_span(merged), announced)
    assert reading.tool_calls == ()
    assert any("announces" in note for note in reading.spans[announced.span_id].notes)


def test_calls_of_late_log_records_are_there_once_they_come() -> None:
    """The same trace without and with its log records."""
    span = a_span({"gen_ai.operation.name": "chat"})
    requested: Any = {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    log = a_log(span, "gen_ai.choice", {"index": 0, "message": requested})
    assert read_all(span).tool_calls == ()
    assert listed(read_all(span, logs=[log]), "call_id", "arguments") == [("c1", {})]
