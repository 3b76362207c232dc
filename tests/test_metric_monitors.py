"""Monitors of metrics: what a metric is, when it alerts and when that is over, over HTTP and from the command line."""

import html
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from collector.api.base.times import time_text
from collector.app import Running
from rules.metric_limit import LimitState, MetricLimit, look_at
from storage.alerting.alerts import Alert, AlertFilter
from storage.judging.call_journal import ReservedCall, SettledCall
from tests.alerting import a_finding
from tests.answers import check_answer
from tests.live import a_client, until
from tests.serving import a_server, post, run
from tests.storing import rows

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/delivery",
    "collector/experiments",
    "collector/live",
    "collector/metric_monitor_text.py",
    "collector/reading",
    "collector/web",
    "rules",
    "storage",
)

_ROOT = "/api/v1/metric-monitors"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server, the one for all tests here: each has a project of its own."""
    with a_server(tmp_path_factory.mktemp("metrics") / "data", project_budgets={"thrifty": {"callsPerDay": 10}}) as it:
        yield it


@pytest.fixture(autouse=True)
def forgotten(server: Running) -> Iterator[None]:
    """Delete the monitors of a test after it: each look is at all monitors that there are."""
    yield
    with a_client() as client:
        for monitor in client.get(f"http://{server.http}{_ROOT}").json():
            client.delete(f"http://{server.http}{_ROOT}/{monitor['id']}").raise_for_status()


def send(server: Running, project: str, count: int, *, failed: int = 0, ms: float = 10, **more: Any) -> None:
    """Send traces of one span each, of which some failed, and wait until they are stored.

    `marks` are attributes of each span, and `process` those of what sends them. With `caught`, the failed span of a
    trace is a tool below its root, which is fine.
    """
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource_attributes = {
        "service.name": project,
        "service.version": str(more.get("release", "1")),
        **more.get("process", {}),
    }
    for key, value in resource_attributes.items():
        resource.resource.attributes.add(key=key).value.string_value = value
    spans = resource.scope_spans.add().spans
    began = time.time_ns()
    for number in range(count):
        span = spans.add(
            trace_id=began.to_bytes(8, "big") + number.to_bytes(8, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=began,
            end_time_unix_nano=began + int(ms * 1e6),
        )
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="gen_ai.request.model").value.string_value = str(more.get("model", "small"))
        if (tokens := more.get("tokens", 100)) is not None:
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = tokens
        for key, value in more.get("marks", {}).items():
            span.attributes.add(key=key).value.string_value = value
        if number * failed % count < failed:  # evenly among them
            if more.get("caught"):
                root, span = span, spans.add()
                span.MergeFrom(root)
                span.name, span.span_id, span.parent_span_id = "execute_tool search", b"caught..", root.span_id
            span.status.MergeFrom(Status(code=Status.STATUS_CODE_ERROR))
    stored = f"SELECT count(*) FROM spans WHERE project = '{project}'"
    ((before,),) = rows(server.store, stored)
    post(f"http://{server.otlp_http}/v1/traces", request.SerializeToString())
    until(lambda: rows(server.store, stored), lambda counted: counted == [(int(str(before)) + len(spans),)])


def watch(server: Running, status: int = 201, **text: Any) -> dict[str, Any]:
    """Have a metric watched."""
    with a_client() as client:
        answer = client.post(f"http://{server.http}{_ROOT}", json={"name": text.get("project", "all"), **text})
    assert answer.status_code == status, answer.text
    document: dict[str, Any] = answer.json()
    return document


def look(server: Running, monitor: dict[str, Any], *, later_s: float = 3) -> dict[str, Any]:
    """Have all metrics looked at as if it were some seconds later; how this one stands."""
    thread = server.pipeline.metric_monitors
    kept = thread._clock
    thread._clock = lambda: time.time_ns() + int(later_s * 1e9)
    try:
        thread.look_now()
    finally:
        thread._clock = kept
    with a_client() as client:
        document: dict[str, Any] = client.get(f"http://{server.http}{_ROOT}/{monitor['id']}").json()
    return document


def alerts(server: Running, monitor: dict[str, Any]) -> list[Alert]:
    """Return the alerts of one monitor, newest first."""
    return server.store.alerts.newest(AlertFilter(rule=monitor["id"]))


def test_a_limit_is_crossed_once_and_the_number_of_looks_decides() -> None:
    """So many looks in a row open, as many end, and one that says otherwise begins the count anew."""
    limit, state, events = MetricLimit(above=5, looks=2), LimitState(), []
    for value in (6, 5, 6, 6, 7, 4, 6, 4, 4, 4):
        state, crossing = look_at(limit, state, value)
        events.append(crossing)
    assert events == [None, None, None, "opened", None, None, None, None, "recovered", None]


def test_an_open_alert_that_goes_much_further_is_told_once() -> None:
    """An alert is escalated once, when consecutive checks reach the further limit, and not if it opened there."""
    limit, state, events = MetricLimit(above=5, escalate_at=20, looks=2), LimitState(), []
    for value in (20, 6, 6, 20, 6, 20, 21, 30, 30, 4, 4, 30, 30, 30, 30):
        state, crossing = look_at(limit, state, value)
        events.append(crossing)
    assert events == [None, "opened", *[None] * 4, "escalated", *[None] * 3, "recovered", None, "opened", None, None]
    below, state = MetricLimit(below=10, escalate_at=0), LimitState()
    assert look_at(below, LimitState(is_open=True), 0)[1] == "escalated"
    assert look_at(below, LimitState(is_open=True), 1)[1] is None


def test_errors_above_the_limit_open_an_alert_that_ends_when_they_are_below(server: Running) -> None:
    """The alert has the share, its interval, failed traces and SQL that says the same; it is one, and it is over."""
    monitor = watch(server, project="errors", metric="root_errors", above=0.2, severity="critical")
    send(server, "errors", 30, failed=12)
    document = look(server, monitor)
    assert (document["standing"], document["value"], document["count"], document["failed"]) == ("alert", 0.4, 30, 12)
    look(server, monitor)
    (alert,) = alerts(server, monitor)
    finding = alert.finding
    assert (finding.kind, finding.metric, finding.severity, finding.measure) == (
        "limit",
        "root_errors",
        "critical",
        "share",
    )
    assert (finding.baseline.rate, finding.candidate.rate, alert.alert_id) == (0.2, 0.4, document["openAlertId"])
    assert 0.2 < finding.candidate.low < 0.4 < finding.candidate.high < 0.6
    examples = finding.document["examples"]
    assert isinstance(examples, list)
    assert len(examples) == 10
    assert rows(server.store, str(finding.document["sql"]))[0][:2] == (30, 12)
    send(server, "errors", 100)
    document = look(server, monitor)
    assert (document["standing"], document["openAlertId"]) == ("fine", None)
    (alert,) = alerts(server, monitor)
    assert alert.state == "recovered"
    assert alert.recovery is not None
    assert alert.recovery["how"] == "recovered"
    with a_client() as client:
        page = client.get(f"http://{server.http}/alerts/{alert.alert_id}").text
    assert ("within its limit again" in page, "the drop" in page) == (True, False)


def test_a_caught_error_counts_in_traces_with_errors_and_not_in_root_errors(server: Running) -> None:
    """A trace has an error if any span failed, as on Home; the alert counts such traces, and its SQL says the same."""
    monitor = watch(server, project="caught", metric="traces_with_errors", above=0.2)
    of_roots = watch(server, name="roots", project="caught", metric="root_errors", above=0.2)
    send(server, "caught", 40, failed=10, caught=True)
    document = look(server, monitor)
    assert (document["standing"], document["value"], document["count"], document["failed"]) == ("alert", 0.25, 40, 10)
    assert look(server, of_roots)["value"] == 0
    (alert,) = alerts(server, monitor)
    examples = alert.finding.document["examples"]
    assert isinstance(examples, list)
    assert len({each["traceId"] for each in examples if isinstance(each, dict)}) == 10
    assert rows(server.store, str(alert.finding.document["sql"]))[0][:2] == (40, 10)
    with a_client() as client:
        home = client.get(f"http://{server.http}/?project=caught").text
        href = html.unescape(home.partition('href="/metric-monitors?')[2].partition('"')[0])
        page = client.get(f"http://{server.http}/metric-monitors?{href}").text
    assert "25.0 %" in home.partition("With errors")[2].partition("</dd>")[0]
    (suggested,) = yaml.safe_load(
        html.unescape(page.partition('<pre class="text"><code><bdi>')[2].partition("</bdi>")[0])
    )
    assert watch(server, **suggested)["metric"] == document["metric"]


def test_a_release_with_more_caught_errors_raises_an_alert(server: Running) -> None:
    """With a change, each trace counts once as failed or not, by all of its spans."""
    change = {"baseline": 64, "off": "drift"}
    monitor = watch(server, project="catching", metric="traces_with_errors", change=change, windowSeconds=60)
    send(server, "catching", 200, failed=4, release="1", caught=True)
    look(server, monitor)
    send(server, "catching", 100, failed=40, release="2", caught=True)
    assert look(server, monitor)["standing"] == "alert"
    (alert,) = alerts(server, monitor)
    assert (alert.finding.kind, round(alert.finding.candidate.rate, 1)) == ("release", 0.4)


def test_the_former_name_of_root_errors_is_accepted_everywhere(server: Running, tmp_path: Path) -> None:
    """Requests, stored monitors, files and filters of alerts may say `trace_errors`; answers say `root_errors`."""
    monitor = watch(server, project="former", metric="trace_errors", above=0.2)
    assert monitor["metric"] == "root_errors"
    former = "UPDATE metric_monitor SET document = replace(document, 'root_errors', 'trace_errors')"
    server.store._writer.store(lambda cursor: cursor.execute(former), 1)
    send(server, "former", 30, failed=12)
    document = look(server, monitor)
    assert (document["metric"], document["standing"], document["version"]) == ("root_errors", "alert", 1)
    older = a_finding(7, metric="trace_errors", kind="limit", measure="amount", project="former", fingerprint=None)
    server.store.alerts.open(older, time.time_ns())
    with a_client() as client:
        for name in ("root_errors", "trace_errors"):
            content = client.get(f"http://{server.http}/api/v1/alerts?project=former&metric={name}").json()["content"]
            assert {each["alertId"] for each in content} == {older.alert_id, document["openAlertId"]}
    file = tmp_path / "monitors.yaml"
    file.write_text(yaml.safe_dump([{"name": "former", "project": "former", "metric": "trace_errors", "above": 0.2}]))
    assert run("metric-monitors", "apply", file, "--server", f"http://{server.http}").exit_code == 0
    assert look(server, monitor)["version"] == 1


@pytest.mark.costly("collector/live/monitors", "rules", "storage")
@pytest.mark.parametrize(
    "metric, more, value",
    [
        ("span_latency", {"percentile": 0.5}, 40.0),
        ("trace_latency", {"percentile": 0.9}, 40.0),
        ("trace_tokens", {}, 250.0),
        ("span_count", {}, 25.0),
        ("trace_count", {}, 25.0),
        ("span_errors", {"model": "large"}, 0.2),
        ("span_errors", {"release": "2"}, 0.2),
        ("traces_with_errors", {"release": "2"}, 0.2),
    ],
)
def test_each_metric_is_what_its_name_says(server: Running, metric: str, more: dict[str, Any], value: float) -> None:
    """Of the spans that its scope leaves, and of no others."""
    project = f"each-{metric}-{'-'.join(more)}"
    monitor = watch(server, project=project, metric=metric, above=1e9, minCount=5, **more)
    if metric == "trace_tokens":
        send(server, project, 4, tokens=None)  # unknown, not 0
    send(server, project, 25, failed=5, ms=40, tokens=250, model="large", release=2)
    send(server, f"{project}-of-others", 30, failed=30, ms=999, tokens=1)
    document = until(lambda: look(server, monitor), lambda state: state["value"] is not None)
    assert document["value"] == pytest.approx(value, rel=0.02)


def test_errors_that_become_many_more_are_told_again(server: Running) -> None:
    """The open alert has the current value and the one reported before, and stays a single alert."""
    monitor = watch(server, project="worsening", metric="root_errors", above=0.1, escalateAt=0.5)
    send(server, "worsening", 30, failed=6)
    alert_id = look(server, monitor)["openAlertId"]
    send(server, "worsening", 90, failed=90)
    for _ in range(2):
        assert look(server, monitor)["openAlertId"] == alert_id
    (alert,) = alerts(server, monitor)
    assert (alert.escalations, alert.state, alert.finding.candidate.rate) == (1, "open", 0.8)
    assert rows(server.store, str(alert.finding.document["sql"]))[0][:2] == (120, 96)
    with a_client() as client:
        document = client.get(f"http://{server.http}/api/v1/alerts/{alert_id}").json()
        page = client.get(f"http://{server.http}/alerts/{alert_id}").text
    assert [each["rate"] for each in document["details"]["told"]] == [0.2]
    assert "reported before: 20 %" in page
    assert "worse" in run("alerts", "show", alert_id, "--server", f"http://{server.http}").output


def test_an_alert_of_a_metric_of_all_projects_is_what_the_contract_says(server: Running) -> None:
    """It is of no project and no evaluator, alone and in the list."""
    finding = a_finding(metric="span_count", kind="limit", measure="amount", project=None, fingerprint=None)
    server.store.alerts.open(finding, time.time_ns())
    with a_client() as client:
        document = check_answer(client.get(f"http://{server.http}/api/v1/alerts/{finding.alert_id}")).json()
        listed = check_answer(client.get(f"http://{server.http}/api/v1/alerts")).json()["content"]
    assert (document["projectName"], document["fingerprint"]) == (None, None)
    assert finding.alert_id in [each["alertId"] for each in listed]


def test_a_change_that_becomes_much_larger_is_told_again(server: Running) -> None:
    """Of a rate, the monitors of results say when an open alert is about something worse."""
    monitor = watch(
        server, project="sliding", metric="root_errors", change={"baseline": 64, "off": "drift"}, windowSeconds=60
    )
    send(server, "sliding", 200, failed=4, release="1")
    look(server, monitor)
    send(server, "sliding", 100, failed=30, release="2")
    alert_id = look(server, monitor)["openAlertId"]
    send(server, "sliding", 80, failed=76, release="2")
    document = look(server, monitor)
    assert alert_id is not None
    assert (document["standing"], document["openAlertId"]) == ("alert", alert_id)
    (alert,) = alerts(server, monitor)
    assert alert.escalations == 1
    assert alert.finding.candidate.rate > 0.6


@pytest.mark.costly("collector/live/monitors", "rules", "storage")
@pytest.mark.parametrize("metric", ["root_errors", "traces_with_errors", "span_latency", "trace_tokens"])
def test_spans_of_experiments_count_only_where_they_are_wanted(server: Running, metric: str) -> None:
    """Neither those of a run, by themselves or by their process, nor those of the playground are production's."""
    project, marked = f"tried-{metric}", {"tracejury.run.id": "run-1"}
    production = watch(server, project=project, metric=metric, above=0)
    everything = watch(server, name=f"{project} all", project=project, metric=metric, experiments=True, above=0)
    send(server, project, 30, failed=30, marks=marked)
    send(server, project, 30, failed=30, process=marked)
    send(server, project, 10, failed=10, process={"tracejury.playground": "true"})
    document = until(lambda: look(server, everything), lambda state: state["count"] == 70)
    assert document["standing"] == "alert"
    assert look(server, production)["count"] == 0
    send(server, project, 20, failed=20)
    document = until(lambda: look(server, production), lambda state: state["count"] == 20)
    assert document["standing"] == "alert"
    for alert in alerts(server, production):
        assert rows(server.store, str(alert.finding.document["sql"]))[0][0] == 20
    with a_client() as client:
        for monitor in (production, everything):
            client.delete(f"http://{server.http}{_ROOT}/{monitor['id']}")


def test_a_change_is_not_looked_for_among_experiments(server: Running) -> None:
    """A run in which everything fails is no worse release of the application."""
    monitor = watch(
        server, project="tried", metric="root_errors", change={"baseline": 64, "off": "drift"}, windowSeconds=60
    )
    send(server, "tried", 200, failed=4, release="1")
    look(server, monitor)
    send(server, "tried", 60, failed=60, release="2", process={"tracejury.run.id": "run-1"})
    assert look(server, monitor)["standing"] == "fine"
    assert alerts(server, monitor) == []


def test_too_few_say_nothing(server: Running) -> None:
    """A share of fewer than `minCount` opens no alert, however bad it is."""
    monitor = watch(server, project="few", metric="span_errors", above=0.1, minCount=20)
    send(server, "few", 19, failed=19)
    document = look(server, monitor)
    assert (document["standing"], document["value"], document["count"]) == ("waiting", None, 19)
    assert alerts(server, monitor) == []


def test_silence_is_told_once_a_whole_window_was_watched(server: Running) -> None:
    """An application that stopped sending is missed, not one that could not send because the server was down."""
    monitor = watch(server, project="silent", metric="span_count", below=1, windowSeconds=60)
    assert look(server, monitor, later_s=30)["standing"] == "waiting"
    assert look(server, monitor, later_s=90)["standing"] == "alert"
    send(server, "silent", 1)
    assert look(server, monitor)["standing"] in {"waiting", "alert"}, "the window began before the server did"
    assert [alert.finding.candidate.rate for alert in alerts(server, monitor)] == [0.0]


def test_a_rule_that_stopped_matching_is_told(server: Running) -> None:
    """What a rule matches is counted by its name; with nothing matched in a window, an alert opens."""
    with a_client() as client:
        rule = {"name": "matcher", "evaluator": "length", "config": {"maximumOutputLength": 20}}
        answer = client.post(f"http://{server.http}/api/v1/projects/matched/trace-eval-rules", json=rule)
    assert answer.status_code == 201, answer.text
    monitor = watch(server, name="matches", metric="rule_matches", rule="matcher", below=5, windowSeconds=60)
    send(server, "matched", 7)
    counted = (
        "SELECT count(*) FROM decision AS d JOIN rule_revision AS r USING (revision)"
        " WHERE r.rule = 'matcher' AND d.outcome IN (1, 2)"
    )
    until(lambda: rows(server.store, counted), lambda stored: stored == [(7,)])
    thread = server.pipeline.metric_monitors
    kept, thread._looker._since_us = thread._looker._since_us, 0
    server.store._writer.store(
        lambda cursor: cursor.execute("UPDATE metric_monitor SET updated_at = TIMESTAMP '2020-01-01'"), 1
    )
    try:
        assert look(server, monitor)["value"] == 7
        assert look(server, monitor, later_s=120)["standing"] == "alert"
    finally:
        thread._looker._since_us = kept


def test_a_budget_that_runs_out_is_told_before_it_has(server: Running) -> None:
    """Of the limits of a budget the one that is nearest; without a budget there is nothing to say."""
    monitor = watch(server, project="thrifty", name="money", metric="budget_used", above=0.75)
    other = watch(server, project="spendthrift", metric="budget_used", above=0.75)
    assert look(server, monitor)["value"] == 0
    now = datetime.now(UTC)
    shares = server.pipeline.judging.budgets
    for number in range(8):
        call = ReservedCall(
            call_id=10_000 + number,
            day=now.date(),
            tenant="",
            project="thrifty",
            rule_id="r",
            connection_id="c",
            job_id=None,
            reserved_tokens=1,
            reserved_usd=0.0,
            started_at=now.replace(tzinfo=None),
        )
        server.store.spending.reserve(call).result(timeout=30)
        settled = SettledCall(
            call_id=call.call_id,
            input_tokens=1,
            output_tokens=1,
            tokens=2,
            usd=0.0,
            outcome="answered",
            ended_at=now.replace(tzinfo=None),
        )
        server.store.spending.settle(settled)
    assert server.store.spending.flush(30)
    with shares._lock:
        shares._days.clear()
    document = look(server, monitor)
    assert (document["standing"], document["value"]) == ("alert", 0.8)
    assert look(server, other)["standing"] == "waiting"


def test_a_change_of_a_rate_is_found_without_a_limit(server: Running) -> None:
    """A release that fails more than the previous one is reported with both shares, by the monitors of results."""
    monitor = watch(
        server, project="changing", metric="root_errors", change={"baseline": 64, "off": "drift"}, windowSeconds=60
    )
    send(server, "changing", 200, failed=4, release="1")
    assert look(server, monitor)["standing"] == "fine"
    send(server, "changing", 60, failed=50, release="2")
    document = look(server, monitor)
    assert (document["standing"], document["count"]) == ("alert", 60), "each is looked at once"
    (alert,) = alerts(server, monitor)
    assert (alert.finding.kind, alert.finding.baseline.release, alert.finding.candidate.release) == (
        "release",
        "1",
        "2",
    )
    assert alert.finding.baseline.rate < 0.3 < alert.finding.candidate.rate
    assert alert.finding.candidate.low > alert.finding.baseline.rate


def test_judgements_that_fail_are_a_rate_like_another(server: Running) -> None:
    """What gave no score counts as failed, whatever the scores were."""
    monitor = watch(server, project="judged", metric="judgement_failures", above=0.5, minCount=4)

    def write(cursor: Any) -> None:
        cursor.execute(
            """INSERT INTO rule_revision BY NAME SELECT 900 AS revision, 'r9' AS rule_id, '' AS tenant, 'd' AS digest,
            'broken' AS rule, 'SPAN' AS target, 'length' AS evaluator, '{}' AS document, []::VARCHAR[] AS clauses,
            now()::TIMESTAMP AS created_at"""
        )
        cursor.execute(
            """INSERT INTO evaluation BY NAME SELECT 900 + i AS job_id, 900 AS revision, i AS seq, '' AS tenant,
            'judged' AS project, 't' || i AS trace_id, 0 AS round, 'Length' AS "name",
            CASE WHEN i < 6 THEN 'failed' WHEN i < 8 THEN 'scored' ELSE 'skipped' END AS outcome, 1 AS attempts,
            (now() AT TIME ZONE 'UTC')::TIMESTAMP AS created_at, 900 + i AS number FROM range(10) AS r(i)"""
        )

    server.store._writer.store(write, 1)
    document = look(server, monitor)
    assert (document["standing"], document["value"], document["count"]) == ("alert", 0.75, 8)


def test_a_monitor_that_is_changed_or_deleted_ends_its_alert(server: Running) -> None:
    """Another text begins anew, and a deleted monitor leaves no alert open for ever."""
    monitor = watch(server, project="ending", metric="span_errors", above=0.2)
    send(server, "ending", 30, failed=30)
    look(server, monitor)
    with a_client() as client:
        place = f"http://{server.http}{_ROOT}/{monitor['id']}"
        text = {"name": "ending", "project": "ending", "metric": "span_errors", "above": 0.3}
        assert client.put(place, json=text, headers={"if-match": '"7"'}).status_code == 412
        assert client.put(place, json=text).json()["version"] == 2
        look(server, monitor)
        assert [(each.state, (each.recovery or {}).get("how")) for each in alerts(server, monitor)] == [
            ("open", None),
            ("recovered", "settings"),
        ]
        assert client.delete(place).status_code == 204
        assert client.get(place).status_code == 404
    server.pipeline.metric_monitors.look_now()
    assert [(each.recovery or {}).get("how") for each in alerts(server, monitor)] == ["deleted", "settings"]


@pytest.mark.parametrize(
    "text, why",
    [
        ({"metric": "root_errors", "above": 0.1, "tool": "search"}, "root_errors has no tool"),
        ({"metric": "root_errors"}, "one of above, below and change"),
        ({"metric": "root_errors", "above": 0.1, "below": 0.2}, "one of above, below and change"),
        ({"metric": "span_latency", "change": {}}, "so it has no change"),
        ({"metric": "rule_matches", "below": 1}, "needs a rule"),
        ({"metric": "budget_used", "above": 1}, "one of rule, project and connection"),
        ({"metric": "moods", "above": 1}, "metric"),
        ({"metric": "root_errors", "above": 0.5, "escalateAt": 0.2}, "lies beyond"),
        ({"metric": "trace_count", "below": 5, "escalateAt": 6}, "lies beyond"),
        ({"metric": "root_errors", "change": {}, "escalateAt": 0.2}, "goes with above or below"),
    ],
)
def test_a_monitor_that_cannot_be_is_refused_with_the_reason(server: Running, text: dict[str, Any], why: str) -> None:
    """A monitor that could never alert, or would watch something else than it names, is not stored."""
    assert why in str(watch(server, 400, name="wrong", **text))


def test_the_command_line_applies_a_file_and_lists_what_is_watched(server: Running, tmp_path: Path) -> None:
    """Applying a file twice changes nothing; what the file says otherwise is replaced under the same id."""
    file = tmp_path / "monitors.yaml"
    fields = {"name": "slow", "project": "cli", "metric": "trace_latency", "above": 2000, "percentile": 0.99}
    at = ("--server", f"http://{server.http}")
    seen: list[tuple[bool, int, float, str]] = []
    for change in ({}, {}, {"above": 3000}):
        file.write_text(yaml.safe_dump([fields | change]))
        result = run("metric-monitors", "apply", file, *at)
        assert result.exit_code == 0, result.output
        with a_client() as client:
            (monitor,) = [each for each in client.get(f"http://{server.http}{_ROOT}").json() if each["name"] == "slow"]
        seen.append(
            (
                monitor["id"] == (seen[0][3] if seen else monitor["id"]),
                monitor["version"],
                monitor["above"],
                monitor["id"],
            )
        )
    assert [each[:3] for each in seen] == [(True, 1, 2000), (True, 1, 2000), (True, 2, 3000)]
    listed = run("metric-monitors", "list", *at).output
    assert "above 3 s" in listed
    assert run("metric-monitors", "delete", "slow", *at).exit_code == 0
    assert "slow" not in run("metric-monitors", "list", *at).output


@pytest.mark.parametrize(
    "content, why",
    [
        (b"a: [", "monitors.yaml:1: is not YAML"),
        (b"\xff", "is not UTF-8"),
        (b"a: 1", "has to be a YAML list of monitors"),
        (b"- name: 2026-01-01", "metric"),
    ],
)
def test_a_file_that_holds_no_monitors_is_refused_with_the_reason(
    server: Running, tmp_path: Path, content: bytes, why: str
) -> None:
    """`apply` names the fault of a file that is not YAML, not UTF-8 or not a list, or holds a date, which is a text."""
    file = tmp_path / "monitors.yaml"
    file.write_bytes(content)
    result = run("metric-monitors", "apply", file, "--server", f"http://{server.http}")
    assert (result.exit_code, why in result.output) == (1, True), result.output


def test_pages_show_metrics_and_their_alerts(server: Running) -> None:
    """The list, the alert and its line among the alerts can be read by a person, with units."""
    monitor = watch(server, project="shown", metric="span_latency", above=20)
    send(server, "shown", 30, ms=1500)
    alert_id = look(server, monitor)["openAlertId"]
    with a_client() as client:
        at = f"http://{server.http}"
        assert "1.5 s" in client.get(f"{at}/metric-monitors").text
        assert "1.5 s" in client.get(f"{at}/alerts").text
        page = client.get(f"{at}/alerts/{alert_id}")
    assert page.status_code == 200
    assert "span_latency is 1.5 s; the limit is 20 ms" in page.text
    assert run("alerts", "show", alert_id, "--server", f"http://{server.http}").exit_code == 0


def test_routes_and_mutes_decide_who_is_told(tmp_path: Path) -> None:
    """A receiver hears of the rules and severities that it wants, and of nothing that is muted; alerts open anyway."""
    with a_server(tmp_path / "data", webhook_private_hosts=("127.0.0.1",)) as server, a_client() as client:
        at = f"http://{server.http}/api/v1"
        hooks = {}
        for name, route in (
            ("all", {}),
            ("critical", {"severities": ["critical"]}),
            ("answers", {"rules": ["answers"]}),
        ):
            body = {"url": f"http://127.0.0.1:9/{name}", **route}
            made = client.post(f"{at}/projects/shop/alert-webhooks", json=body).json()
            assert {key: made[key] for key in route} == route
            hooks[made["id"]] = name

        def hooks_notified(number: int, **changes: Any) -> set[str]:
            finding = a_finding(number, **changes)
            assert server.store.alerts.open(finding, time.time_ns())
            return {hooks[each.webhook_id] for each in server.store.outbox.of_alert(finding.alert_id)}

        assert hooks_notified(1) == {"all", "answers"}
        assert hooks_notified(2, severity="critical", rule="other") == {"all", "critical"}
        until_ns = time.time_ns() + 3_600 * 10**9
        mute = {"until": time_text(until_ns), "rule": "answers", "project": "shop", "by": "Ada"}
        assert client.post(f"{at}/alert-mutes", json=mute | {"until": "2020-01-01T00:00:00Z"}).status_code == 400
        assert client.post(f"{at}/alert-mutes", json=mute | {"until": "soon"}).status_code == 400
        made = client.post(f"{at}/alert-mutes", json=mute).json()
        assert [each["by"] for each in client.get(f"{at}/alert-mutes").json()] == ["Ada"]
        assert hooks_notified(3) == set()
        assert hooks_notified(4, project="shop", rule="other", rule_id="r2") == {"all"}
        assert server.store.alert_mutes.at(until_ns) == [], "a mute ends by itself"
        assert client.delete(f"{at}/alert-mutes/{made['id']}").status_code == 204
        assert client.delete(f"{at}/alert-mutes/{made['id']}").status_code == 404
        assert hooks_notified(5) == {"all", "answers"}


def test_an_alert_that_is_resolved_by_hand_is_over_and_does_not_come_back(server: Running) -> None:
    """The monitor alerts again only once the metric was fine in between."""
    monitor = watch(server, project="resolved", metric="span_errors", above=0.5)
    send(server, "resolved", 30, failed=30)
    alert_id = look(server, monitor)["openAlertId"]
    with a_client() as client:
        place = f"http://{server.http}/api/v1/alerts/{alert_id}/resolve"
        assert client.post(place, json={"by": "Ada"}).json()["recovery"] == {"how": "resolved", "by": "Ada"}
        assert client.post(place).status_code == 409
        assert client.post(place.replace(alert_id, "nobody")).status_code == 404
    look(server, monitor)
    assert [each.state for each in alerts(server, monitor)] == ["recovered"]
    send(server, "resolved", 60)
    assert look(server, monitor)["standing"] == "fine"
    send(server, "resolved", 200, failed=200)
    look(server, monitor)
    # The server itself may have opened the second one: by its own clock, which is behind that of `look`.
    assert sorted(each.state for each in alerts(server, monitor)) == ["open", "recovered"]
