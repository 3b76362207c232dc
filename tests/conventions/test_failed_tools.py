"""Failed tool calls: by their flags, else by the words of the result."""

import json
from typing import Any

import pytest

from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from tests.conventions.making import a_log, a_span, call, read_all
from tests.conventions.test_columnar import assert_alike, sent
from tests.conventions.test_tool_calls import a_model, listed

DENIED = "Error: a sample of the manual"


@pytest.mark.parametrize(
    "result, has_failed",
    [
        (DENIED, True),
        ({"content": [{"type": "text", "text": DENIED}]}, True),
        ({"isError": False, "content": [{"type": "text", "text": DENIED}]}, False),
        ({"isError": True, "content": [{"type": "text", "text": "7"}]}, True),
        ({"is_error": False, "error": "a sample"}, False),
        ({"success": True, "error": "a sample"}, False),
        ({"success": False, "error": "a sample"}, True),
        ({"error": "No error"}, False),
        ({"blocks": [{"block_type": "text", "text": DENIED}], "tool_name": "f", "is_error": False}, False),
    ],
)
def test_a_flag_decides_whether_a_call_failed(result: Any, *, has_failed: bool) -> None:
    """The words of a result count if it has no flag, on the tool's span and in a message."""
    written = result if isinstance(result, str) else json.dumps(result)
    ran = a_span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.result": written})
    assert (read_span(ran, (), NO_KEYS).error is not None) == has_failed
    assert listed(read_all(ran), "is_error") == [has_failed]
    message = {"role": "tool", "tool_call_id": "c1", "content": written}
    spans = [a_model(call("f", {}, "c1"), start_s=1), a_model(sent=[message], start_s=3)]
    assert listed(read_all(*spans), "is_error") == [has_failed]
    assert_alike(sent([ran, *spans]))


@pytest.mark.parametrize(
    "event, attributes",
    [
        ("codex.tool_result", {"call_id": "c1", "success": "true", "output": DENIED}),
        ("claude_code.tool_result", {"tool_use_id": "c1", "success": "true"}),
    ],
)
def test_a_log_record_decides_whether_a_call_failed(event: str, attributes: dict[str, Any]) -> None:
    """It says so of the result on the tool's span, and of its own."""
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c1"}
    for fields in ({}, {"gen_ai.tool.call.result": DENIED}):
        span = a_span(ran | fields)
        (tool_call,) = read_trace([span], [a_log(span, event, None, attributes)], NO_KEYS).tool_calls
        assert (tool_call.is_error, tool_call.error) == (False, None)
