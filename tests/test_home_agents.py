"""The table of agents on Home, and what Home says has changed since the last visit of a browser."""

import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from collector.app import Running
from storage.query.agents import AgentKey, AgentNumbers, AgentsAt, AgentSums
from tests.alerting import a_finding
from tests.answers import check_answer
from tests.browser import PHONE, a_page
from tests.live import a_client, until
from tests.serving import a_server, post, run
from tests.storing import rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/mcp", "collector/web", "storage")

DAY_S = 86_400
HOUR_NS = 3_600_000_000_000


def send(server: Running, service: str, count: int, **more: Any) -> list[str]:
    """Send traces of an HTTP request with an agent and a tool below it, the first `failed` with a failed tool.

    `ago_s` is their age, `ms` their duration, `agent` the agent's name.
    """
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    spans = resource.scope_spans.add().spans
    start_ns = time.time_ns()
    began = start_ns - int((more.get("ago_s", 600)) * 1e9)
    trace_ids = [start_ns.to_bytes(8, "big") + number.to_bytes(8, "big") for number in range(count)]
    for number, trace_id in enumerate(trace_ids):
        names = ("POST /chat", f"invoke_agent {more.get('agent', service)}", "execute_tool find")
        for place, (name, operation) in enumerate(zip(names, ("", "invoke_agent", "execute_tool"), strict=True), 1):
            span = spans.add(
                trace_id=trace_id,
                span_id=place.to_bytes(8, "big"),
                parent_span_id=(place - 1).to_bytes(8, "big") if place > 1 else b"",
                name=name,
                start_time_unix_nano=began + place,
                end_time_unix_nano=began + int(more.get("ms", 100) * 1e6),
            )
            if operation:
                span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
        if number < more.get("failed", 0):
            spans[-1].status.MergeFrom(Status(code=Status.STATUS_CODE_ERROR))
    post(f"http://{server.otlp_http}/v1/traces", request.SerializeToString())
    ids = [trace_id.hex() for trace_id in trace_ids]
    summed = f"SELECT count(*) FROM trace_reading WHERE trace_id IN {tuple(ids)} AND span_count = 3"
    until(lambda: rows(server.store, summed), lambda counted: counted == [(count,)])
    return ids


def judge(server: Running, trace_ids: list[str], *, failed: int, ago_s: float, fingerprint: str) -> None:
    """Store a verdict of an evaluator on each of these traces of refunds, the first `failed` of them failed."""

    def write(cursor: Any) -> None:
        for number, trace_id in enumerate(trace_ids):
            cursor.execute(
                """INSERT INTO evaluation BY NAME SELECT (hash($trace || $print) % 1000000000)::BIGINT AS job_id,
                1 AS revision, 1 AS seq, '' AS tenant, 'refund' AS project, $trace AS trace_id, 0 AS round,
                'n' AS "name", $print AS fingerprint, 'scored' AS outcome, $passed AS passed, 1 AS attempts,
                make_timestamp($at) AS created_at, make_timestamp($at) AS started_at""",
                {
                    "trace": trace_id,
                    "print": fingerprint,
                    "passed": number >= failed,
                    "at": int((time.time() - ago_s) * 1e6),
                },
            )

    server.store._writer.store(write, len(trace_ids))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with three agents: one that got worse, one that did not, and two in one service."""
    with a_server(tmp_path_factory.mktemp("agents") / "data") as running:
        for days, failed in ((0, 8), (1, 2), (7, 1)):
            ids = send(running, "refund", 20, agent="refund-agent", failed=failed, ago_s=600 + days * DAY_S)
            fingerprint = "b" if days == 7 else "a"
            judge(running, ids, failed=failed, ago_s=600 + days * DAY_S, fingerprint=fingerprint)
        for days in (0, 1):
            send(running, "search", 30, ms=200 - 100 * days, ago_s=600 + days * DAY_S)
        send(running, "desk", 3, agent="mail", failed=1)
        send(running, "desk", 5, agent="calendar")
        alert = a_finding(project="refund", document={"service": "refund", "examples": [], "sql": "SELECT 1"})
        running.store.alerts.open(alert, time.time_ns())
        yield running


def get(server: Running, path: str = "/", visit: str = "") -> httpx.Response:
    """Return the answer to a browser that has this cookie."""
    headers = {b"cookie": f"home_visit={visit}".encode("latin-1")} if visit else {}
    with a_client() as client:
        return client.get(f"http://{server.http}{path}", headers=headers)


def home(server: Running, path: str = "/", visit: str = "") -> str:
    """Return the page that a browser with this cookie gets."""
    return get(server, path, visit).raise_for_status().text


def row(page: str, agent: str) -> str:
    """Return the text of an agent's row of the table, tags and spaces left out."""
    table = page.partition('id="agents"')[2]
    (html,) = (each for each in table.split("<tr>")[1:] if f">{agent}<" in each.partition("</td>")[0])
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("</tr>")[0]).split())


def test_an_agent_is_compared_with_a_day_and_a_week_earlier(server: Running) -> None:
    """A row has the numbers of an agent with changes, its worst traces and its open alert; the worst agent is first."""
    page = home(server)
    text = row(page, "refund-agent")
    assert "20 1 d unchanged 7 d unchanged" in text
    assert "40.0 % 1 d +30.0 points 7 d +35.0 points" in text
    assert "100 ms 1 d unchanged 7 d unchanged" in text
    assert "60.0 % 1 d \N{MINUS SIGN}30.0 points 7 d other evaluators" in text, (
        "rates of two evaluators are not compared"
    )
    assert text.count("1 error, 1 failed verdict in the trace") == 3
    assert "alert: answers" in text
    assert "200 ms 1 d +100 %" in row(page, "search")
    names = re.findall(r'<td class="agent">(?:<a[^>]*>)?<bdi>([^<]+)', page)
    assert names == ["refund-agent", "mail", "search", "calendar"]


def test_agents_of_one_service_have_a_row_each(server: Running) -> None:
    """Agents are told apart by the name of the agent's span, also if the root is an HTTP request."""
    page = home(server)
    assert row(page, "mail").startswith("mail desk 3 ")
    assert row(page, "calendar").startswith("calendar desk 5 ")
    assert "service=desk" not in page.partition('id="agents"')[2], "a link would lead to traces of both"
    assert "service=refund" in page.partition('id="agents"')[2]


def test_a_week_is_compared_with_the_week_before_only(server: Running) -> None:
    """The last seven days overlap with the seven days until yesterday, so there is no such change."""
    text = row(home(server, "/?period=week"), "refund-agent")
    assert ("1 d" in text, "7 d" in text) == (False, True)


def test_the_heading_names_the_project(server: Running) -> None:
    """A chosen project is in the heading, and the table is of its agents."""
    page = home(server, "/?project=desk")
    heading = re.sub(r"<[^>]+>", "", page.partition("<h1>")[2].partition("</h1>")[0])
    assert " ".join(heading.split()) == "Last 24 hours of desk"
    assert "refund-agent" not in page.partition('id="agents"')[2]
    assert "of all projects" in home(server)


def test_spans_beyond_a_limit_leave_agents_unnamed(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many spans to look for names, the table has a row for each service, and says so."""
    monkeypatch.setattr("storage.query.agents.MOST_SPANS", 10)
    page = home(server)
    assert "too many spans to tell the agents of a service apart" in page
    assert row(page, "desk").startswith("desk 8 ")


def test_windows_that_are_compared_have_the_same_length() -> None:
    """The windows of a day and a week earlier end as long before now as they begin before this one."""
    at = AgentsAt.between(100 * HOUR_NS, 123 * HOUR_NS, step_ns=HOUR_NS, project=None, tenant=None)
    assert (at.day_from_ns, at.day_until_ns) == (76 * HOUR_NS, 99 * HOUR_NS)
    assert (at.week_from_ns, at.week_until_ns) == ((100 - 168) * HOUR_NS, (123 - 168) * HOUR_NS)
    assert not AgentsAt.between(0, 25 * HOUR_NS, step_ns=HOUR_NS, project=None, tenant=None).has_day


def test_failed_traces_beyond_the_usual_number_decide_the_order() -> None:
    """One failed trace of two is less than ten of a hundred more than yesterday."""

    def more(traces: int, failed: int, before: int) -> float:
        now, day = (AgentNumbers(traces=traces, failed=count) for count in (failed, before))
        return AgentSums(key=AgentKey("p", "s", None), now=now, day=day).more_failed

    assert more(2, 1, 0) < more(100, 15, 5) == 10


def test_home_says_what_changed_since_the_last_visit(server: Running) -> None:
    """After a break the cookie of the last request is the visit before; within a visit, and at the first, it is not."""
    now_s = int(time.time())
    assert "Since your last visit" not in home(server)
    ended = home(server, visit=f"{now_s - 9000}.{now_s - 3600}")
    news = " ".join(re.sub(r"<[^>]+>", " ", ended.partition('id="news"')[2].partition("</section>")[0]).split())
    assert "last visit, 1 h ago 58 traces , 9 with errors : refund 8 of 20 , desk 1 of 8" in news
    assert "Alert opened : answers in refund, service refund" in news
    going_on = home(server, visit=f"{now_s - 7200}.{now_s - 60}")
    assert "last visit, <time" in going_on
    assert ">2 h ago<" in going_on.partition('id="news"')[2]
    time.sleep(1)  # the times of a visit are whole seconds, and the alert may have come in this one
    assert "Nothing changed." in home(server, visit=f"{now_s + 1}.{now_s + 1}")
    assert "Since seven days ago" in home(server, visit=f"1.{now_s - 30 * DAY_S}")
    for odd in ("x.y", f"{now_s}.{now_s - 5}", f"1.{now_s + 999}", "9" * 40 + ".1", "\xb2.\xb2"):
        assert "Since your last visit" not in home(server, visit=odd), odd


def test_what_was_seen_is_not_told_again(server: Running) -> None:
    """The link of the page sets the time from which changes count to now, and leads back to the same page."""
    now_s = int(time.time())
    answer = get(server, "/?period=week&seen=1", visit=f"{now_s - 9000}.{now_s - 3600}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?period=week")
    since, _, seen = answer.cookies["home_visit"].partition(".")
    assert int(since) == int(seen) >= now_s


def test_the_api_commands_and_tools_have_the_same_table(server: Running) -> None:
    """Each has the numbers of an agent in the three windows, its worst traces and its alert, in the order of Home."""
    with a_client() as client:
        listed = check_answer(client.get(f"http://{server.http}/api/v1/agents")).json()
        week = client.get(f"http://{server.http}/api/v1/agents?period=week&project=refund").json()
        (alert,) = client.get(f"http://{server.http}/api/v1/alerts?project=refund").json()["content"]
        tool = {"name": "list_agents", "arguments": {"limit": 1}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
        accepts = {"accept": "application/json, text/event-stream"}
        called = client.post(f"http://{server.http}/mcp", json=call, headers=accepts).text
    first = listed["agents"][0]
    assert (first["projectName"], first["serviceName"], first["agentName"]) == ("refund", "refund", "refund-agent")
    windows = [first[window] for window in ("now", "dayEarlier", "weekEarlier")]
    assert [(each["traces"], each["tracesWithErrors"], each["passed"]) for each in windows] == [
        (20, 8, 12), (20, 2, 18), (20, 1, 19),
    ]  # fmt: skip
    assert [each["errorRate"] for each in windows] == [0.4, 0.1, 0.05]
    assert windows[0]["evaluators"] == windows[1]["evaluators"] != windows[2]["evaluators"]
    assert [(each["errors"], each["failedVerdicts"]) for each in first["worst"]] == [(1, 1)] * 3
    assert first["openAlertIds"] == [alert["alertId"]]
    assert [each["agentName"] for each in listed["agents"]][:2] == ["refund-agent", "mail"]
    assert (week["agents"][0]["dayEarlier"], week["agents"][0]["now"]["traces"]) == (None, 40)
    assert '"agentName":"refund-agent"' in called.replace('": "', '":"').replace("\\", "")
    at = ("--server", f"http://{server.http}")
    line = next(line for line in run("agents", *at).output.splitlines() if line.startswith("refund-agent"))
    assert line.split()[:8] == ["refund-agent", "refund", "refund", "20", "40.0", "%", "+30.0", "+35.0"]
    assert json.loads(run("agents", "--json", *at).output)[0]["now"] == first["now"]


def test_home_refreshes_itself_and_keeps_the_focus(server: Running, browser: "Browser") -> None:
    """New traces appear without a reload, the focused link keeps the focus, and axe finds nothing, also on a phone."""
    with a_page(browser, f"http://{server.http}") as watch:
        watch.open("/?project=late")
        watch.open("/")
        watch.page.focus("#agents ~ .table a[href*='service=search']")
        before = watch.page.evaluate("document.activeElement.getAttribute('href')")
        send(server, "late", 4)
        watch.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        watch.page.wait_for_selector("#agents ~ .table a[href*='service=late']")
        assert watch.page.evaluate("document.activeElement.getAttribute('href')") == before
        assert int(watch.page.get_attribute("#home", "data-every") or 0) <= 60
        assert watch.scan() == []
    with a_page(browser, f"http://{server.http}", viewport=PHONE, color_scheme="dark") as watch:
        watch.open("/")
        assert (watch.scan(), watch.sideways()) == ([], 0)


def test_a_tenant_sees_its_own_agents_and_those_of_none(server: Running) -> None:
    """Neither the table nor the news has traces of another tenant, and names come from the tenant's spans only."""
    ids = send(server, "secret", 2)

    def write(cursor: Any) -> None:
        for table in ("span", "trace_part", "trace_reading"):
            cursor.execute(f"UPDATE {table} SET tenant = 'acme' WHERE trace_id IN {tuple(ids)}")

    server.store._writer.store(write, 1)
    now_ns = time.time_ns()
    seen: dict[str | None, tuple[bool, bool]] = {}
    for tenant in ("acme", "other", None):
        at = AgentsAt.between(now_ns - HOUR_NS, now_ns, step_ns=HOUR_NS, project=None, tenant=tenant)
        services = {each.key.service for each in server.store.agents.find(at).agents}
        new = {each.service for each in server.store.agents.since(at.from_ns, now_ns, project=None, tenant=tenant)}
        assert "refund" in services & new
        seen[tenant] = ("secret" in services, "secret" in new)
    assert seen == {"acme": (True, True), "other": (False, False), None: (True, True)}
