"""Requests and responses in JSON of which a scrubber left nothing that was said: they were not captured."""

import json
from typing import Any

import pytest

from collector.evaluation.trace_case import case_of_trace
from tests.conventions.making import Attributes, a_span, read, read_all
from tests.conventions.test_columnar import a_batch, a_request, assert_alike, assert_traces_alike, sent

MARK = "[Scrubbed due to 'password']"
SYSTEM = {"role": "system", "content": "Be short."}
MESSAGES: dict[str, Any] = {
    "contents": [{"role": "system", "content": MARK}, {"role": "user", "content": MARK}],
    "contents but the system's": [SYSTEM, {"role": "user", "content": MARK}],
    "blocks": [SYSTEM, {"role": "user", "content": [{"type": "text", "text": MARK}]}],
    "messages": [SYSTEM, MARK],
    "all messages": MARK,
}
MESSAGE: dict[str, Any] = {"contents": {"role": "assistant", "content": MARK}, "all messages": MARK}


def a_request_of_logfire(messages: Any, message: Any) -> Attributes:
    """Return the attributes of a request to a model as Logfire sends them."""
    return {
        "logfire.span_type": "span",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "m",
        "request_data": json.dumps({"messages": messages, "model": "m"}),
        "response_data": json.dumps({"message": message, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
    }


@pytest.mark.parametrize("kind", MESSAGES)
def test_scrubbed_messages_are_not_captured(kind: str) -> None:
    """Neither the mark nor the JSON around it is an input or an output that is judged."""
    span = a_span(a_request_of_logfire(MESSAGES[kind], MESSAGE.get(kind, MESSAGE["contents"])))
    case = case_of_trace(read_all(span), [span])
    assert not case.inputs
    assert "output" not in case.actual_outputs
    assert {"input", "output"} <= {*case.metadata["notCaptured"]}


def test_messages_that_are_scrubbed_in_part_are_captured() -> None:
    """A redaction mark within a text, or in an earlier message, leaves the rest as content."""
    messages = [{"role": "user", "content": MARK}, {"role": "user", "content": f"It is {MARK}."}]
    span = a_span(a_request_of_logfire(messages, {"role": "assistant", "content": "Fine."}))
    case = case_of_trace(read_all(span), [span])
    assert (case.inputs["input"], case.actual_outputs["output"]) == (f"It is {MARK}.", "Fine.")


def test_scrubbed_messages_are_read_by_columns_alike() -> None:
    """Batches of such spans say what single spans do."""
    requests_sent = [
        a_request_of_logfire(each, MESSAGE.get(kind, MESSAGE["contents"])) for kind, each in MESSAGES.items()
    ]
    more = [{"openinference.span.kind": "LLM", "input.value": each["request_data"]} for each in requests_sent]
    spans = [a_span(each, trace_id=f"{number:032x}") for number, each in enumerate([*requests_sent, *more], 1)]
    batch = a_batch(a_request(spans))
    assert_alike(batch)
    assert_traces_alike(batch)


@pytest.mark.parametrize("key", ["input.value", "output.value", "mlflow.spanInputs"])
@pytest.mark.parametrize("mark", ["[redacted]", "<object at 0x7f>"])
def test_a_redaction_beside_messages_is_noted(key: str, mark: str) -> None:
    """The columns note it as the reading of one span does."""
    sides = {
        f"gen_ai.{side}.messages": json.dumps([{"role": role, "parts": [{"type": "text", "content": "hi"}]}])
        for side, role in (("input", "user"), ("output", "assistant"))
    }
    span = a_span({"gen_ai.operation.name": "chat", key: mark, **sides})
    assert any("put: " in note for note in read(span.attributes).notes)
    assert_alike(sent([span]))
