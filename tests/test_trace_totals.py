"""Conditions on the sums of a trace: what it cost, its tokens, how long it took, how many spans it has."""

from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.live.active import ActiveRule
from rules.errors import BadRule
from rules.fields import TOTALS
from rules.matching import decide
from storage.store import Store
from tests.matching import InForce, active, adding_up, matching, reading_and_matching, remember
from tests.ruling import a_rule
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id
from tests.test_backfill import finished

DECIDED = "SELECT revision, outcome, clause FROM decision ORDER BY revision, seq"
MS = 10**6


def calls(count: int, *, trace: int = 0, tokens: int = 100) -> ExportTraceServiceRequest:
    """A trace of a root and calls of a model, each of which takes 10 ms and so many tokens in, a tenth of that out."""
    request = an_export(count + 1, trace=trace, first=10 * trace)
    root, *spans = request.resource_spans[0].scope_spans[0].spans
    root.end_time_unix_nano = root.start_time_unix_nano + (count + 1) * 10 * MS
    for span in spans:
        span.parent_span_id = root.span_id
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = tokens
        span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = tokens // 10
    return request


def over(field: str, least: float) -> dict[str, object]:
    """The condition that a sum is at least so much."""
    return {"field": field, "op": ">=", "value": least}


def settle(store: Store, in_force: InForce, wait: Callable[[], bool], *exports: ExportTraceServiceRequest) -> None:
    """Let traces come, and settle."""
    commit(store, *(a_batch(each) for each in exports))
    assert wait()
    in_force.clock.pass_s(11)
    assert wait()


def test_a_trace_is_chosen_by_its_sums(tmp_path: Path) -> None:
    """Each sum decides by the whole trace, and with other conditions at once; one that is not there meets none."""
    wanted = [("trace.span_count", 4.0), ("trace.input_tokens", 300.0), ("trace.output_tokens", 30.0)]
    of_sums = [active(n, target="TRACE", conditions=[over(*each)]) for n, each in enumerate(wanted, start=1)]
    both = [over("trace.input_tokens", 300), {"field": "name", "op": "=", "value": "span 1"}]
    more = active(4, target="TRACE", conditions=both), active(5, target="TRACE", conditions=[over("trace.cost_usd", 0)])
    in_force = InForce(rules=(*of_sums, *more))
    with a_store(tmp_path) as store, reading_and_matching(store, in_force) as wait:
        settle(store, in_force, wait, calls(3), calls(2, trace=1))
        assert rows(store, "SELECT span_count, input_tokens FROM traces ORDER BY trace_id") == [(4, 300), (3, 200)]
        assert rows(store, DECIDED) == [
            *[(number, outcome, clause) for number in (1, 2, 3) for outcome, clause in ((2, None), (0, 1))],
            *[(4, 2, None), (4, 0, 1), (5, 0, 1), (5, 0, 1)],
        ]
        assert rows(store, "SELECT DISTINCT trace_id FROM job") == [(trace_id(0),)]


def test_sums_are_those_of_the_view(tmp_path: Path) -> None:
    """For every sum, what the view `traces` says is what decides, also of how long it took and what broke."""
    with a_store(tmp_path) as store, adding_up(store) as sums:
        commit(store, a_batch(calls(3)))
        assert sums.wait_idle(WAIT_S)
        columns = ", ".join(f"t.{name.removeprefix('trace.')} AS {field.column}" for name, field in TOTALS.items())
        select = f"SELECT s.*, {columns} FROM spans AS s JOIN traces AS t USING (tenant, trace_id)"
        with store.matching._database.cursor() as cursor:
            answer = cursor.execute(select)
            names = [column[0] for column in answer.description or []]
            table = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        told = {name: table[0][field.column] for name, field in TOTALS.items()}
        assert told["trace.duration_ms"] == 40.0
        rules: list[ActiveRule] = []
        for name, value in told.items():
            exact = (
                [{"field": name, "op": "exists", "value": False}]
                if value is None
                else [{"field": name, "op": "=", "value": value}]
            )
            rules.append(active(len(rules) + 1, target="TRACE", conditions=exact))
        assert [decide(each.rule, table).outcome for each in rules] == ["matched"] * len(TOTALS)
        in_force = InForce(rules=tuple(rules))
        with matching(store, in_force) as live:
            assert live.wait_matched(WAIT_S)
            in_force.clock.pass_s(11)
            assert live.wait_matched(WAIT_S)
        assert rows(store, "SELECT count(*), count(DISTINCT revision) FROM job") == [(len(TOTALS), len(TOTALS))]


def test_a_trace_is_not_decided_about_before_it_is_added_up(tmp_path: Path) -> None:
    """While sums lag behind, what has settled stays open; then it is decided about, once, by the whole."""
    in_force = InForce(rules=(active(1, target="TRACE", conditions=[over("trace.input_tokens", 300)]),))
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        remember(store, *in_force.rules)
        commit(store, a_batch(calls(3)))
        assert live.wait_matched(WAIT_S)
        in_force.clock.pass_s(11)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECIDED) == []
        assert rows(store, "SELECT decision FROM decisions") == [("waiting",)]
        with adding_up(store) as sums:
            assert sums.wait_idle(WAIT_S)
        assert live.wait_matched(WAIT_S)
        assert rows(store, DECIDED) == [(1, 2, None)]


def test_a_backfill_goes_by_sums(tmp_path: Path) -> None:
    """It waits until what it looks at is added up, and chooses what the rule would have chosen."""
    rule = active(1, target="TRACE", conditions=[over("trace.span_count", 4)])
    in_force = InForce()
    with a_store(tmp_path) as store, matching(store, in_force) as live:
        commit(store, *(a_batch(calls(count, trace=count)) for count in (2, 3, 4)))
        assert live.wait_matched(WAIT_S)
        in_force.rules = (rule,)
        backfill_id = live.backfills.start(rule, START_NS, START_NS + 10**9)
        assert live.wait_matched(WAIT_S)
        assert [each.state for each in live.backfills.all()] == ["running"]
        with adding_up(store) as sums:
            assert sums.wait_idle(WAIT_S)
        found = finished(live, backfill_id)
        assert (found.looked_at, found.matched) == (3, 2)
        assert rows(store, "SELECT trace_id FROM job ORDER BY trace_id") == [(trace_id(3),), (trace_id(4),)]


def test_late_spans_have_the_sums_decide_again(tmp_path: Path) -> None:
    """A trace that grows beyond a limit is chosen by the decision that takes the place of the one before."""
    in_force = InForce(rules=(active(1, target="TRACE", conditions=[over("trace.input_tokens", 300)]),))
    with a_store(tmp_path) as store, reading_and_matching(store, in_force) as wait:
        settle(store, in_force, wait, calls(2))
        assert rows(store, DECIDED) == [(1, 0, 1)]
        late = calls(6)
        del late.resource_spans[0].scope_spans[0].spans[:5]
        settle(store, in_force, wait, late)
        assert rows(store, DECIDED) == [(1, 2, None)]


@pytest.mark.parametrize("target", ["SPAN", "SESSION"])
def test_sums_go_with_traces_alone(target: str) -> None:
    """Of a span they are not known when it is decided about."""
    with pytest.raises(BadRule, match=r"conditions: trace\.span_count, .* go with target: TRACE"):
        a_rule(target=target, conditions=[{"any": [over("trace.span_count", 3)]}])


def test_a_field_that_is_misspelt_is_told() -> None:
    """What there is stands beside it."""
    with pytest.raises(BadRule, match=r"did you mean trace\.cost_usd\?"):
        a_rule(target="TRACE", conditions=[over("trace.cost", 3)])
