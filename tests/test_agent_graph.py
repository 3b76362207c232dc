"""The call graph of a trace: its agents, models and tools, and its picture."""

import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.web.charts.graph import Box, Line, boxes
from collector.web.traces.agent_graph import MOST_EDGES, MOST_NODES, AgentGraph, agent_graph
from tests.browser import DESK, PHONE, a_page
from tests.live import until
from tests.paging import Visit
from tests.playing import send
from tests.serving import a_server
from tests.test_trace_compare import a_span

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from collector.app import Running

pytestmark = pytest.mark.pages("traces")

TRACE = "d4" * 16
EVIL = "<script>alert(1)</script>"


def edges_of(graph: AgentGraph) -> set[tuple[str, str, str, int]]:
    """Return each edge in words."""
    return {(graph.nodes[e.source].label, graph.nodes[e.target].label, e.way, e.calls) for e in graph.edges}


def test_calls_lead_from_the_nearest_that_counts() -> None:
    """What stands between an agent and its tools is passed over, and calls of one thing are one line."""
    graph = agent_graph(
        [
            a_span("1", None, "invoke_agent shop", "agent"),
            a_span("2", "1", "turn"),
            a_span("3", "2", "chat gpt", "llm", model="gpt"),
            a_span("4", "2", "execute_tool lookup", "tool", tool_name="lookup", is_error=True),
            a_span("5", "2", "execute_tool lookup", "tool", tool_name="lookup"),
            a_span("6", "5", "search", "retriever"),
        ]
    )
    assert [(node.kind, node.label, node.calls, node.errors) for node in graph.nodes] == [
        ("agent", "shop", 1, 0),
        ("llm", "gpt", 1, 0),
        ("tool", "lookup", 2, 1),
        ("retriever", "search", 1, 0),
    ]
    assert edges_of(graph) == {
        ("shop", "gpt", "call", 1),
        ("shop", "lookup", "call", 2),
        ("lookup", "search", "call", 1),
    }


@pytest.mark.parametrize(
    "handoff",
    [
        {"name": "handoff to Desk", "kind": "chain"},
        {"name": "execute_tool transfer_to_desk", "kind": "tool", "tool_name": "transfer_to_desk"},
        {"name": "Handoff to: somebody else", "kind": "tool"},
    ],
)
def test_a_hand_off_leads_from_agent_to_agent(handoff: dict[str, Any]) -> None:
    """By the name that it says, else to the agent that starts next; it is not a tool itself."""
    graph = agent_graph(
        [
            a_span("1", None, "flow"),
            a_span("2", "1", "Triage", "agent"),
            a_span("3", "2", **handoff),
            a_span("4", "1", "Desk", "agent"),
            a_span("5", "1", "Other", "agent"),
        ]
    )
    assert edges_of(graph) == {("Triage", "Desk", "handoff", 1)}
    assert [node.label for node in graph.nodes] == ["Triage", "Desk", "Other"]


def test_a_trace_with_thousands_of_tools_is_drawn_in_bounds() -> None:
    """Agents stay, rarely called tools are one node for each kind, and no call is lost from the counts."""
    spans = [a_span("0000", None, "agent", "agent")]
    spans += [
        a_span(f"{n:04d}", "0000", f"t{n}", "tool", tool_name=f"tool {n}", is_error=n % 2 == 0) for n in range(1, 5_000)
    ]
    spans += [a_span(f"z{n:03d}", "0001", "again", "tool", tool_name="often") for n in range(7)]
    graph = agent_graph(spans)
    assert (len(graph.nodes) <= MOST_NODES, len(graph.edges) <= MOST_EDGES) == (True, True)
    assert sum(node.calls for node in graph.nodes) == len(spans)
    assert sum(node.errors for node in graph.nodes) == 2_499
    labels = [node.label for node in graph.nodes]
    assert ("agent" in labels, "often" in labels, any(" more" in label for label in labels)) == (True, True, True)


def test_cycles_and_deep_chains_are_drawn() -> None:
    """An agent that calls itself through another, and a chain as long as it is deep, need no recursion."""
    loop = [
        a_span("1", None, "a", "agent"),
        a_span("2", "1", "b", "agent"),
        a_span("3", "2", "a", "agent"),
    ]
    graph = agent_graph(loop)
    assert edges_of(graph) == {("a", "b", "call", 1), ("b", "a", "call", 1)}
    deep = [a_span(f"{n:04d}", f"{n - 1:04d}" if n else None, f"agent {n % 3}", "agent") for n in range(5_000)]
    assert sum(edge.calls for edge in agent_graph(deep).edges) == 4_999
    # Minutes, if each looked upward.
    steps = [a_span(f"{n:04x}", f"{n - 1:04x}", f"step {n}") for n in range(1, 30_000)]
    ends = [a_span("0000", None, "a", "agent"), a_span("t", steps[-1].span_id, "t", "tool")]
    assert edges_of(agent_graph([*ends, *steps])) == {("a", "t", "call", 1)}


def test_a_picture_is_xml_in_which_nothing_runs() -> None:
    """Whatever a name is, it is a text, and each box leads somewhere."""
    nodes = [
        Box(kind="agent", label=EVIL, detail='"quoted" & more', href="/traces/x?find=a&tenant=b", is_bad=True),
        Box(
            kind="tool", label="a name that is much longer than a box is wide", detail="1 call", href="/y", is_bad=False
        ),
    ]
    lines = [
        Line(source=0, target=1, label="2 times", is_dashed=False, title=EVIL),
        Line(source=1, target=0, label="", is_dashed=True, title="back"),
    ]
    picture = str(boxes(nodes, lines, label="A graph", rows=[(EVIL, "agent", "1", "0", "")]))
    tree = ET.fromstring(picture)  # noqa: S314 - it is ours
    assert "<script" not in picture
    assert [each.get("href") for each in tree.iter("a")] == ["/traces/x?find=a&tenant=b", "/y"]
    assert not any(name.startswith("on") or name == "style" for each in tree.iter() for name in each.attrib)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    """Yield a server with the trace of two agents."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "agents"
    spans = resource.scope_spans.add().spans
    now_ns = time.time_ns()

    def add(number: int, name: str, parent: int | None, *, failed: bool = False, **attributes: str) -> None:
        span = spans.add(
            trace_id=bytes.fromhex(TRACE),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
            name=name,
            start_time_unix_nano=now_ns + number * 1_000_000,
            end_time_unix_nano=now_ns + (number + 1) * 1_000_000,
        )
        if failed:
            span.status.code = span.status.STATUS_CODE_ERROR
        for key, value in attributes.items():
            span.attributes.add(key=f"gen_ai.{key.replace('__', '.')}").value.string_value = value

    add(1, "invoke_agent triage", None, operation__name="invoke_agent")
    add(2, "chat gpt", 1, operation__name="chat", request__model="gpt")
    add(3, "execute_tool transfer_to_desk", 1, operation__name="execute_tool", tool__name="transfer_to_desk")
    add(4, "invoke_agent desk", 1, operation__name="invoke_agent")
    for number in (5, 6, 7):
        add(number, "execute_tool lookup", 4, failed=number == 6, operation__name="execute_tool", tool__name="lookup")
    add(8, f"execute_tool {EVIL}", 4, operation__name="execute_tool", tool__name=EVIL)
    with a_server(tmp_path_factory.mktemp("agents") / "data") as made:
        send(made.otlp_http, request)
        select = "SELECT count(*) FROM spans WHERE dialect IS NOT NULL"
        until(
            lambda: made.store.queries.sql(select, max_rows=1, timeout_s=10).rows[0][0], lambda count: str(count) == "8"
        )
        yield made


def test_the_page_says_the_same_as_a_table(running: "Running") -> None:
    """Each with its calls, its failures and who called it, and a link to its spans."""
    with Visit(f"http://{running.http}") as visit:
        page = visit.get(f"/traces/{TRACE}?view=agents").text
        assert "<script>alert" not in page
        for text in ("agent · 1 call", "tool · 3 calls · 1 failed", "desk, 3 times", "triage, who handed over, once"):
            assert text in page, text
        assert f'href="/traces/{TRACE}?find=lookup"' in page
        assert visit.get(f"/traces/{TRACE}?find=lookup").text.count("execute_tool lookup") >= 3


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_somebody_goes_from_the_graph_to_spans_in_a_browser(
    running: "Running", browser: "Browser", looks: dict[str, Any], *, has_scripts: bool
) -> None:
    """The tab shows the graph, and the box of a tool leads to its calls."""
    with a_page(browser, f"http://{running.http}", java_script_enabled=has_scripts, **looks) as watch:
        page = watch.page
        watch.open(f"/traces/{TRACE}")
        page.get_by_role("link", name="Agents", exact=True).click()
        page.locator("svg.graph").wait_for()
        assert page.locator("svg.graph a.node").count() == 5
        assert (watch.scan() if has_scripts else [], watch.sideways() <= 0) == ([], True)
        page.locator("svg.graph a", has_text="lookup").first.click()
        page.wait_for_url("**find=lookup*")
        assert page.locator("tr[data-row]", has_text="lookup").count() >= 3
