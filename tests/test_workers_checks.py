"""Checks become evaluations: once each, in batches, and the failure of one breaks no other."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from storage.ingest.windows import Limits, TraceKey
from storage.store import Store
from tests.storing import a_batch, a_store, an_export, commit, rows, span_id, trace_id
from tests.test_readings import a_talk
from tests.working import LONG_S, QUICK, Book, evaluated, eventually, states, working

SLOW_OUTPUT = "x" * 40

POISON = """
import os, sys, time
from collector.live.jobs.work import child
whole = child.case_of_stored
def case_of_stored(trace):
    if "{span_id}" in [span.span_id for span in trace.members]:
        {deed}
    return whole(trace)
child.case_of_stored = case_of_stored
child.main()
"""


def test_checks_of_traces_and_spans(tmp_path: Path) -> None:
    """A job of a trace sees its calls, one of a span that span alone; both leave a row and no job."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        book = Book(store)
        calls = book.rule(target="TRACE", evaluator="tool_call_count", config={"toolCallsCount": {"w": ["=", 1]}})
        words = book.rule(evaluator="tool_call_count", config={"toolCallsCount": {"w": ["=", 2]}}, name="words")
        book.enqueue(calls, [(trace_id(0), None)])
        book.enqueue(words, [(trace_id(0), span_id(1))])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store, "rule, rule_revision, trace_id, span_id, evaluator, outcome, passed, attempts") == [
            ("rule 1", calls.rule.revision[:12], trace_id(0), None, "tool_call_count", "scored", True, 1),
            ("words", words.rule.revision[:12], trace_id(0), span_id(1), "tool_call_count", "scored", False, 1),
        ]
        assert evaluated(store, "superseded, release, project, job_id, error_kind") == [
            (False, "v1", "shop", 1, None),
            (False, "v1", "shop", 2, None),
        ]
        assert rows(store, "SELECT count(*) FROM job") == [(0,)]
        assert rows(store, "SELECT count(fingerprint), count(latency_ms) FROM evaluations") == [(2, 2)]


def test_spans_that_nobody_read_are_read_for_their_checks(tmp_path: Path) -> None:
    """Rows that do not tell what their spans mean, as after an update, are judged by what those say."""
    with Store.open(tmp_path) as store:
        commit(store, a_batch(a_talk()))
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1, trace=5, first=50)))
        assert rows(store, "SELECT count(*) FROM span WHERE edition IS NULL") == [(2,)]
        book = Book(store)
        calls = book.rule(target="TRACE", evaluator="tool_call_count", config={"toolCallsCount": {"w": ["=", 1]}})
        words = book.rule(evaluator="tool_call_count", config={"toolCallsCount": {"w": ["=", 2]}})
        book.enqueue(calls, [(trace_id(0), None), (trace_id(5), None)])
        book.enqueue(words, [(trace_id(0), span_id(1))])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store, "trace_id, span_id, passed") == [
            (trace_id(0), None, True),
            (trace_id(5), None, False),
            (trace_id(0), span_id(1), False),
        ]


def test_a_rule_adds_tools_and_expectations(tmp_path: Path) -> None:
    """What a rule says of tools and of expected outputs is part of the case."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        book = Book(store)
        schema = {"type": "object", "required": ["city"]}
        tools = [{"name": "w", "inputSchema": schema}]
        valid = book.rule(target="TRACE", evaluator="tool_call_validity", tools=tools)
        expected = {"toolCalls": [{"name": "w", "arguments": {"a": 1}}]}
        right = book.rule(target="TRACE", evaluator="tool_correctness", expected=expected)
        for active in (valid, right):
            book.enqueue(active, [(trace_id(0), None)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        (first, second) = evaluated(store, "passed, reason")
        assert first[0] is False
        assert "city" in str(first[1])
        assert second[0] is True


def test_scores_of_other_tools_or_expectations_are_never_compared(tmp_path: Path) -> None:
    """An edit of either gives the results another fingerprint, and the monitors another evaluator."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        book = Book(store)
        additions: list[dict[str, Any]] = [
            {},
            {"expected": {"toolCalls": [{"name": "w"}]}},
            {"expected": {"toolCalls": [{"name": "v"}]}},
            {"expected": {"toolCalls": [{"name": "v"}]}, "tools": [{"name": "w"}]},
        ]
        edits = [book.rule(target="TRACE", evaluator="tool_correctness", **each) for each in (*additions, additions[1])]
        for active in edits:
            book.enqueue(active, [(trace_id(0), None)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        prints = [row[0] for row in evaluated(store, "fingerprint")]
    assert (len(set(prints)), prints[1]) == (4, prints[4])
    assert [each.rule.judgement == edits[1].rule.judgement for each in edits] == [False, True, False, False, True]


def test_a_span_without_an_input_meets_a_rule_that_asks_for_one(tmp_path: Path) -> None:
    """An evaluator that needs an input gets an empty one if the span has none."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_talk()))
        book = Book(store)
        config = {"toolCallsCount": {"w": ["=", 1]}, "evaluationParams": ["INPUT"]}
        active = book.rule(evaluator="tool_call_count", config=config)
        book.enqueue(active, [(trace_id(0), span_id(1))])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store, "outcome, passed") == [("scored", True)]


def test_many_jobs_leave_one_evaluation_each(tmp_path: Path) -> None:
    """Thousands of jobs of several rules are each evaluated once."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(2, trace=trace, first=10 * trace) for trace in range(1500))))
        book = Book(store)
        for _ in range(4):
            active = book.rule(target="TRACE", evaluator="tool_error")
            book.enqueue(active, [(trace_id(trace), None) for trace in range(1500)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        counts = "SELECT count(*), count(DISTINCT job_id), count(DISTINCT (rule, trace_id)) FROM evaluations"
        assert rows(store, counts) == [(6000, 6000, 6000)]
        assert states(store) == {"scored": 6000}


def test_a_process_helps_where_many_jobs_wait(tmp_path: Path) -> None:
    """A few jobs are checked by one process; thousands by two, each once."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(1, trace=trace, first=trace) for trace in range(4500))))
        book = Book(store)
        active = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(active, [(trace_id(trace), None) for trace in range(20)])
        with working(book, checking=2) as workers:
            assert workers.wait_idle(LONG_S)
            assert len(workers.checking_pids) == 1
            active = book.rule(target="TRACE", evaluator="tool_error")
            # In one transaction: jobs that arrive one after another may never be more than one process takes.
            book.enqueue(active, [(trace_id(trace), None) for trace in range(4500)])
            assert workers.wait_idle(LONG_S)
            assert len(workers.checking_pids) == 2
        counts = "SELECT count(*), count(DISTINCT job_id), count(DISTINCT (rule, trace_id)) FROM evaluations"
        assert rows(store, counts) == [(4520, 4520, 4520)]


@pytest.mark.parametrize("deed", ["os._exit(7)", "time.sleep(3600)", "raise MemoryError", "while True: pass"])
def test_a_target_that_breaks_the_process_fails_alone(tmp_path: Path, deed: str) -> None:
    """A trace that kills, hangs, exhausts or occupies the process fails visibly; all others are evaluated."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(4, trace=trace, first=10 * trace) for trace in range(9))))
        book = Book(store)
        active = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(active, [(trace_id(trace), None) for trace in range(9)])
        program = POISON.format(span_id=span_id(40), deed=deed)
        retry_policy = replace(QUICK, child_s=5 if "sleep" in deed else 60)
        with working(book, program=program, retry_policy=retry_policy) as workers:
            assert workers.wait_idle(LONG_S)
        assert states(store) == {"scored": 8, "failed": 1}
        failed = rows(store, "SELECT trace_id, score, passed FROM evaluations WHERE outcome = 'failed'")
        assert failed == [(trace_id(4), None, None)]


def an_output(text: str, *, trace: int) -> ExportTraceServiceRequest:
    """Build a trace whose only span has this output."""
    request = an_export(1, trace=trace, first=trace)
    attributes = request.resource_spans[0].scope_spans[0].spans[0].attributes
    attributes.add(key="output.value").value.string_value = text
    attributes.add(key="input.value").value.string_value = "?"
    return request


ENDLESS = """
from evaluators.regular import SafeRegex
def search(*_):
    while True:
        pass
SafeRegex.search = search
from collector.live.jobs.work.child import main; main()
"""
BRIEF = replace(QUICK, check_cpu_s=0.25)


def test_a_check_that_never_ends_fails_alone(tmp_path: Path) -> None:
    """One that takes processor time without end is stopped, and other rules do not wait for all of its jobs."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_output(SLOW_OUTPUT, trace=trace) for trace in range(6))))
        book = Book(store)
        slow = book.rule(evaluator="regex", config={"pattern": "x"}, name="slow")
        quick = book.rule(evaluator="length", config={"maximumOutputLength": 100}, name="quick")
        book.enqueue(slow, [(trace_id(trace), span_id(trace)) for trace in range(3)])
        with working(book, program=ENDLESS, retry_policy=BRIEF) as workers:
            time.sleep(0.5)
            book.enqueue(quick, [(trace_id(trace), span_id(trace)) for trace in range(6)])
            workers.wake()
            assert workers.wait_idle(LONG_S)
        stored = rows(store, "SELECT rule, outcome, error_kind, count(*) FROM evaluations GROUP BY ALL ORDER BY ALL")
        assert stored == [("quick", "scored", None, 6), ("slow", "failed", "timeout", 3)]


def test_many_jobs_of_a_slow_expression_hold_up_no_other_rule(tmp_path: Path) -> None:
    """In a batch that begins with dozens of jobs of a slow expression, others wait for a few of them alone."""
    traces = range(60)
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_output(SLOW_OUTPUT, trace=trace) for trace in traces)))
        book = Book(store)
        slow = book.rule(evaluator="regex", config={"pattern": "x"}, name="slow")
        quick = book.rule(evaluator="length", config={"maximumOutputLength": 100}, name="quick")
        for rule in (slow, quick):
            book.enqueue(rule, [(trace_id(trace), span_id(trace)) for trace in traces])
        with working(book, program=ENDLESS, retry_policy=BRIEF):
            eventually(lambda: states(store).get("scored"), lambda scored: scored == len(traces))
        # In the order of results, which does not depend on when it is read.
        earlier = "rowid <= (SELECT max(rowid) FROM evaluation WHERE outcome = 'scored')"
        late = rows(store, f"SELECT error_kind, attempts FROM evaluation WHERE outcome = 'failed' AND {earlier}")
        assert set(late) <= {("timeout", 1)}
        assert len(late) < 10


def test_a_configuration_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """An evaluator that cannot be built makes a failure with the reason, not a score."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1)))
        book = Book(store)
        book.enqueue(book.rule(evaluator="length", config={"maximum": 3}), [(trace_id(0), span_id(0))])
        book.enqueue(book.rule(evaluator="no_such_thing"), [(trace_id(0), span_id(0))])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store, "outcome, error_kind, score") == 2 * [("failed", "bad_configuration", None)]


def test_what_is_not_stored_and_what_is_deleted_is_skipped(tmp_path: Path) -> None:
    """Jobs of deleted rules, of unknown revisions and of targets that are gone end, each with its reason."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1)))
        book = Book(store)
        kept, deleted, lost = (book.rule(evaluator="tool_error", target="TRACE") for _ in range(3))
        book.enqueue(kept, [(trace_id(7), None)])
        book.enqueue(kept, [(trace_id(7), span_id(7))])
        book.enqueue(deleted, [(trace_id(0), None)])
        book.enqueue(lost, [(trace_id(0), None)])
        book.delete(deleted)
        del book.revisions[lost.revision]
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert evaluated(store, "outcome, error_kind") == [
            ("skipped", "target_gone"),
            ("skipped", "target_gone"),
            ("skipped", "rule_deleted"),
            ("failed", "unknown_rule"),
        ]


def a_long_run(spans: int, trace: int, first: int) -> ExportTraceServiceRequest:
    """Return tools that answer, and their agent, which comes last and says something else."""
    request = an_export(spans, trace=trace, first=first)
    listed = request.resource_spans[0].scope_spans[0].spans
    for span in listed[1:]:
        span.parent_span_id = listed[0].span_id
        for key, value in (("operation.name", "execute_tool"), ("tool.name", "step"), ("tool.call.result", "ok")):
            span.attributes.add(key=f"gen_ai.{key}").value.string_value = value
    root = type(listed[0]).FromString(listed[0].SerializeToString())
    for key, value in (("session.id", f"s{trace}"), ("openinference.span.kind", "AGENT"), ("output.value", "SHOWN")):
        root.attributes.add(key=key).value.string_value = value
    del listed[0]
    listed.append(root)
    return request


def test_a_long_trace_is_judged_by_what_is_displayed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a trace over the limits the displayed output is judged, wherever its root comes, and nothing of all calls."""
    monkeypatch.setattr("collector.live.jobs.work.examiner.LIMITS", Limits(rows=20, nbytes=1 << 20))
    monkeypatch.setattr("storage.ingest.windows._ENDS", 4)
    checks: Mapping[str, Mapping[str, Any]] = {
        "regex": {"pattern": "SHOWN"},
        "length": {"minimumOutputLength": 5, "maximumOutputLength": 5},
        "tool_error": {},
        "tool_policy": {"forbidden": ["steal"]},
        "execution_metrics": {"maxToolCalls": 30},
        "efficiency": {"best": {"toolCalls": 30}},
        "tool_efficiency": {},
        "tool_call_count": {"toolCallsCount": {"step": [">", 1]}},
        "tool_steps": {"mode": "in_order", "expected": [{"tool": "step"}]},
    }
    with a_store(tmp_path) as store:
        commit(store, a_batch(a_long_run(50, 0, 0), *(a_long_run(3, number, 100 * number) for number in range(1, 4))))
        window = store.windows.traces([TraceKey("", trace_id(0))], limits=Limits(rows=20, nbytes=1 << 20))
        assert window is not None
        assert window.spans.column("span_id").to_pylist()[-1] == span_id(0)
        assert window.is_cut
        book = Book(store)
        for evaluator, config in checks.items():
            active = book.rule(target="TRACE", evaluator=evaluator, config=config)
            book.enqueue(active, [(trace_id(trace), None) for trace in range(4)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        evaluations = evaluated(store, "trace_id, outcome, score, reason, metadata")
    long = [one for one in evaluations if one[0] == trace_id(0)]
    assert [(outcome, score) for _, outcome, score, *_ in long[:2]] == [("scored", 1), ("scored", 1)]
    assert all("50 spans are too many" in str(reason) for *_, reason, _ in long[:2])
    assert {outcome for _, outcome, *_ in long[2:]} == {"skipped"}
    assert all(str(reason).startswith("not read: ") and "50 spans" in str(reason) for *_, reason, _ in long[2:])
    assert {json.loads(str(metadata))["spanCount"] for *_, metadata in long} == {50}
    assert not any(
        "too many" in str(reason) or "not read" in str(reason) for *_, reason, _ in set(evaluations) - set(long)
    )


def test_closing_is_prompt_and_burns_no_attempt(tmp_path: Path) -> None:
    """Workers that stop in the middle of a batch return the unfinished jobs."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(*(an_export(1, trace=trace, first=trace) for trace in range(8))))
        book = Book(store)
        active = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(active, [(trace_id(trace), None) for trace in range(8)])
        with working(book, program=POISON.format(span_id=span_id(3), deed="time.sleep(3600)")):
            time.sleep(1.5)
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 10
        assert rows(store, "SELECT DISTINCT state, attempts, claimed_until FROM job") == [("ready", 0, None)]
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert states(store) == {"scored": 8}
