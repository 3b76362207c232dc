"""Evaluators of the server on items of runs whose traces are stored: what an item leaves out is read there."""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.access import Closed, a_closed_server
from tests.live import PATIENCE_S, until
from tests.model_server import Says, a_model
from tests.offline import Offline, an_offline_server
from tests.serving import run as command

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/evaluation",
    "collector/experiments",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "evaluators",
    "storage",
)

TOOL_ERROR = {"evaluator": "tool_error"}
QUICK: Mapping[str, Any] = {"settle_after_root_seconds": 0.3, "settle_missing_seconds": 2.0}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
CAPTURED = TOOL | {"gen_ai.tool.call.arguments": '{"key": "a"}', "gen_ai.tool.call.result": "found"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "input.value": "What is a?", "output.value": "It is found."}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
_NUMBERS = itertools.count(1)


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all; traces settle soon."""
    with an_offline_server(tmp_path_factory.mktemp("item-traces") / "data", **QUICK) as server:
        yield server


def trace_id() -> str:
    """Return an id that no other test has."""
    return f"{next(_NUMBERS):032x}"


def request_of(trace: str, *spans: Mapping[str, Any], failed: bool = False) -> dict[str, Any]:
    """Return an export request: the first span is the root, the others are below it unless `parent` says otherwise."""
    start_ns = time.time_ns()
    times = {"startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(start_ns + 1_000_000)}
    built = []
    for number, attributes in enumerate(spans, start=1):
        pairs = [{"key": key, "value": {"stringValue": each}} for key, each in attributes.items() if key != "parent"]
        parent = {} if number == 1 else {"parentSpanId": f"{attributes.get('parent', 1):016x}"}
        status = {"status": {"code": 2, "message": "broken"}} if failed and number > 1 else {}
        name = {"traceId": trace, "spanId": f"{number:016x}", "name": "span"}
        built.append(name | times | parent | status | {"attributes": pairs})
    return {"resourceSpans": [{"scopeSpans": [{"spans": built}]}]}


def store(api: Offline, trace: str, *spans: Mapping[str, Any], failed: bool = False) -> None:
    """Have a trace stored."""
    assert api.running is not None
    document = request_of(trace, *spans, failed=failed)
    httpx.post(f"http://{api.running.otlp_http}/v1/traces", json=document, trust_env=False).raise_for_status()


def judged(api: Offline, *items: Mapping[str, Any], **evaluation: Any) -> Any:
    """Return the items of an ended run, each with its only result, after an evaluation of them."""
    run = api.begin()
    numbered = [{"itemKey": str(number), "inputs": {}, **item} for number, item in enumerate(items)]
    api.report(run, *numbered)
    api.end(run)
    api.ask("POST", f"runs/{run}/evaluations", 201, json=evaluation)
    return settled(api, run)


def settled(api: Offline, run: str) -> Any:
    """Return the results of the items of a run once nothing is open."""
    ended = until(
        lambda: api.ask("GET", f"runs/{run}"),
        lambda document: document["status"] != "EVALUATING",
        within_s=2 * PATIENCE_S,
    )
    return [item["evalResults"][0] for item in ended["items"]["content"]]


def test_an_item_without_tool_calls_is_judged_by_those_of_its_trace(api: Offline) -> None:
    """A trace of one call that went well passes `tool_error`, with the fingerprint of an item that says its calls."""
    trace = trace_id()
    store(api, trace, AGENT, CAPTURED)
    by_trace, by_item = judged(
        api,
        {"traceId": trace, "actualOutputs": {"output": "It is found."}},
        {"actualOutputs": {"toolCalls": [{"name": "lookup", "arguments": {}, "result": "x"}]}},
        **TOOL_ERROR,
    )
    assert (by_trace["errorKind"], by_trace["score"], by_trace["success"]) == (None, 1.0, True)
    assert by_trace["fingerprint"] == by_item["fingerprint"]


def test_what_an_item_says_counts_over_its_trace(api: Offline) -> None:
    """Calls and output of the item are judged, whatever its trace recorded."""
    trace = trace_id()
    store(api, trace, AGENT, CAPTURED, failed=True)
    outputs = {"output": "mine", "toolCalls": [{"name": "lookup", "arguments": {}, "result": "fine"}]}
    item = {"traceId": trace, "actualOutputs": outputs, "expectedOutputs": {"output": "mine"}}
    (of_calls,) = judged(api, item, **TOOL_ERROR)
    (of_output,) = judged(api, item, evaluator="exact_match")
    (of_trace,) = judged(api, {"traceId": trace}, **TOOL_ERROR)
    assert (of_calls["score"], of_output["score"], of_trace["score"]) == (1.0, 1.0, 0.0)


def test_an_item_without_outputs_has_the_answer_of_its_trace(api: Offline) -> None:
    """The output of the root is what the item answered."""
    trace = trace_id()
    store(api, trace, AGENT)
    (result,) = judged(api, {"traceId": trace, "expectedOutputs": {"output": "It is found."}}, evaluator="exact_match")
    assert (result["errorKind"], result["score"]) == (None, 1.0)


def test_limits_of_a_run_are_checked_by_the_numbers_of_its_trace(api: Offline) -> None:
    """Calls of models are counted in the trace, and calls of tools in the item that says them."""
    trace = trace_id()
    store(api, trace, AGENT, CHAT | {"output.value": "x"}, CAPTURED, CAPTURED)
    item = {"traceId": trace, "actualOutputs": {"toolCalls": [{"name": "lookup"}]}}
    (result,) = judged(api, item, evaluator="execution_metrics", config={"maxToolCalls": 1, "maxLlmCalls": 1})
    assert (result["errorKind"], result["score"]) == (None, 1.0)


def test_content_that_a_trace_did_not_record_is_skipped(api: Offline) -> None:
    """Results that were not captured are not a failure of the evaluation."""
    trace = trace_id()
    store(api, trace, AGENT, TOOL)
    (result,) = judged(api, {"traceId": trace}, **TOOL_ERROR)
    assert (result["outcome"], result["errorKind"]) == ("skipped", None)
    assert "not captured" in result["reason"]


def test_a_trace_that_never_arrives_is_skipped_and_said(api: Offline) -> None:
    """An item that lacks what would be in a trace that is not stored is skipped; one that lacks nothing is judged."""
    outputs = {"toolCalls": [{"name": "lookup", "arguments": {}, "result": "fine"}]}
    missing, whole = judged(
        api, {"traceId": trace_id()}, {"traceId": trace_id(), "actualOutputs": outputs}, **TOOL_ERROR
    )
    assert (missing["outcome"], missing["errorKind"], whole["score"]) == ("skipped", "no_trace", 1.0)
    assert "is not stored" in missing["reason"]


def test_who_waits_for_an_evaluation_is_told_what_it_waits_for(api: Offline) -> None:
    """On standard error, and then that no item could be judged."""
    trace, run = trace_id(), api.begin()
    api.report(run, {"itemKey": "1", "inputs": {}, "traceId": trace})
    api.end(run)
    result = command("experiments", "evaluate", run, "--evaluator", "tool_error", "--wait", "--server", api.url)
    assert result.exit_code == 1
    assert "RUNNING: it needs the traces of 1 item, and looks again" in result.stderr
    assert f"trace {trace} has not arrived, and is waited for until 2 s after the end of the run" in result.stderr
    assert "no_trace" in result.stderr


def test_a_trace_that_arrives_after_the_run_has_ended_is_waited_for(tmp_path: Path) -> None:
    """Evaluation and run say which trace is waited for, and it is judged by that once it has settled."""
    trace = trace_id()
    with an_offline_server(tmp_path / "data", settle_after_root_seconds=0.3) as api:
        run = api.begin()
        api.report(run, {"itemKey": "1", "inputs": {}, "traceId": trace})
        api.end(run)
        api.ask("POST", f"runs/{run}/evaluations", 201, json=TOOL_ERROR)
        until(
            lambda: api.ask("GET", f"runs/{run}/evaluations")[0]["lastError"],
            lambda reason: bool(reason) and f"trace {trace} has not arrived" in reason,
        )
        waiting = api.ask("GET", f"runs/{run}")
        assert waiting["status"] == "EVALUATING"
        assert f"trace {trace} has not arrived, and is waited for until 30 s after" in waiting["statusReason"]
        assert f"trace {trace} has not arrived" in command("experiments", "show", run, "--server", api.url).stdout
        store(api, trace, AGENT, CAPTURED)
        (result,) = settled(api, run)
        assert api.ask("GET", f"runs/{run}")["statusReason"] is None
        (evaluation,) = api.ask("GET", f"runs/{run}/evaluations")
        assert (result["score"], evaluation["status"], evaluation["lastError"]) == (1.0, "DONE", None)


def test_items_of_one_trace_are_told_apart_by_their_spans(api: Offline) -> None:
    """An item with a `spanId` has the calls below that span alone."""
    trace = trace_id()
    store(api, trace, {"name": "session"}, AGENT, {**CAPTURED, "parent": 2}, AGENT)
    items = [{"traceId": trace, "spanId": f"{number:016x}"} for number in (2, 4)]
    one, other = judged(api, *items, evaluator="tool_call_count", config={"toolCallsCount": {"lookup": ["==", 1]}})
    assert (one["score"], other["score"]) == (1.0, 0.0)


TALK = [{"role": "user", "content": "What is a?"}, {"role": "assistant", "content": "It is found."}]
OF_TALK = {"criteria": ["helpfulness"], "includeToolCalls": True}


@pytest.mark.parametrize(
    "evaluator, config, outputs",
    [
        ("llm_judge", {"criteria": "Is it right?", "evaluationParams": ["INPUT", "TOOL_CALLS"]}, {}),
        ("conversation_trajectory", OF_TALK, {"trajectory": TALK}),
    ],
)
def test_a_judge_reads_the_trace_of_an_item(
    tmp_path: Path, evaluator: str, config: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    """A judge is asked once, with the calls of the trace."""
    trace = trace_id()
    with a_model(Says({"score": 0.9, "reason": "it is right"})) as model:
        price = {"inputUsdPerMillion": 1.0, "outputUsdPerMillion": 2.0}
        local = {"baseUrl": model.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS", "price": price}
        with an_offline_server(tmp_path / "data", llm_connections={"local": local}, **QUICK) as api:
            store(api, trace, AGENT, CAPTURED)
            item = {"traceId": trace, "actualOutputs": outputs}
            (result,) = judged(api, item, evaluator=evaluator, config=config, connectionId="local")
            assert result["score"] == pytest.approx(0.9)
            (request,) = model.requests
            assert "lookup" in json.dumps(request.body)


def _results(server: Closed, run: str, key: str) -> Any:
    return server.ask("GET", f"/api/v1/runs/{run}", key=key).json()["items"]["content"][0]["evalResults"]


def test_a_trace_of_another_tenant_is_not_read(tmp_path: Path) -> None:
    """An item that names the trace of another tenant is skipped, as if there were none."""
    trace = trace_id()
    with a_closed_server(tmp_path / "data", **QUICK) as server:
        sent = httpx.post(
            f"http://{server.running.otlp_http}/v1/traces",
            json=request_of(trace, AGENT, CAPTURED),
            headers={"authorization": f"Bearer {server.keys['ingest of acme']}"},
            trust_env=False,
        )
        assert sent.status_code == 200, sent.text
        kinds = {}
        for tenant in ("acme", "other"):
            key = server.keys[f"admin of {tenant}"]
            begun = server.ask("POST", "/api/v1/projects/shop/runs", key=key, json={"experimentName": "qa"}).json()
            path = f"/api/v1/runs/{begun['runId']}"
            items = {"items": [{"itemKey": "1", "inputs": {}, "traceId": trace}]}
            server.ask("POST", f"{path}/items", key=key, json=items)
            server.ask("PATCH", path, key=key, json={"status": "SUCCESS"})
            server.ask("POST", f"{path}/evaluations", key=key, json=TOOL_ERROR)
            (result,) = until(partial(_results, server, begun["runId"], key), bool, within_s=2 * PATIENCE_S)
            kinds[tenant] = (result["outcome"], result["errorKind"])
        assert kinds == {"acme": ("scored", None), "other": ("skipped", "no_trace")}
