"""Judging a span or a trace at once: over HTTP and on its page, with its cost and the stored result."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.answers import check_answer
from tests.browser import DESK, PHONE, a_page
from tests.connecting import a_connection
from tests.live import a_client, until
from tests.model_server import Says, Status
from tests.paging import Visit
from tests.playing import SPAN, TRACE, Played, a_conversation, a_played_server, send

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.pages("offline", "traces"),
    pytest.mark.costly(
        "collector/access",
        "collector/api",
        "collector/conventions",
        "collector/datasets",
        "collector/evaluation",
        "collector/live",
        "collector/reading",
        "collector/web",
        "evaluators",
        "rules",
        "storage",
    ),
]

GOOD = Says({"reason": "it is kind", "score": 0.9})
BAD = Says({"reason": "it is rude", "score": 0.1})
NEVER = [{"field": "name", "op": "=", "value": "nothing is called so"}]
KIND = {"name": "kind", "evaluator": "llm_judge", "criteria": "Is it kind?", "connectionId": "one", "conditions": NEVER}
SHORT = {"name": "short", "evaluator": "length", "config": {"maximumOutputLength": 400}, "conditions": NEVER}
RULES = "projects/shop/trace-eval-rules"
STORED = """
SELECT job_id, outcome, score, occasion, round, superseded, release FROM evaluations
WHERE rule = '{}' ORDER BY job_id
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Yield a server whose traces settle at once."""
    settles = {"settle_after_root_seconds": 0, "settle_quiet_seconds": 0}
    with a_played_server(tmp_path_factory.mktemp("now") / "data", **settles) as made:
        made.connect()
        third = a_connection(made.models[1].base_url, name="three")
        made.running.context.judging.connections.create(third)
        yield made


@pytest.fixture
def rule(played: Played) -> Iterator[Any]:
    """Yield a function that makes rules, which are deleted after the test."""
    made: list[str] = []
    with a_client() as client:

        def make(**keys: Any) -> str:
            answer = client.post(f"{played.origin}/api/v1/{RULES}", json=keys)
            assert answer.status_code == 201, answer.text
            made.append(answer.json()["id"])
            return made[-1]

        yield make
        for each in made:
            client.delete(f"{played.origin}/api/v1/{RULES}/{each}")
    played.models[0].requests.clear()


def judge(played: Played, rule_id: str, **fields: Any) -> httpx.Response:
    """Request the judgement of the span by a rule."""
    body = {"traceId": TRACE, "spanId": SPAN} | fields
    with a_client() as client:
        path = f"{played.origin}/api/v1/{RULES}/{rule_id}/judge"
        return check_answer(client.post(path, json={key: value for key, value in body.items() if value is not None}))


def says(played: Played, step: object) -> None:
    """Have the judge say this."""
    played.models[0].script = lambda _: step  # type: ignore[assignment,return-value] # a step
    played.models[0].requests.clear()


def test_a_judge_says_what_it_thinks_of_a_span_that_its_rule_leaves_out(played: Played, rule: Any) -> None:
    """The price is returned first; the score is stored and counts against the rule's budget, but not for monitors."""
    says(played, GOOD)
    rule_id = rule(**KIND)
    priced = judge(played, rule_id, priceOnly=True).json()
    assert priced == {
        "costUsdAtMost": pytest.approx((100_000 * 10 + 8 * 300 * 100) / 1e6),
        "model": "model-one",
        "jobId": None,
        "result": None,
    }
    assert played.models[0].requests == []
    document = judge(played, rule_id).json()
    result = document["result"]
    assert (result["outcome"], result["score"], result["passed"], result["reason"]) == (
        "scored",
        0.9,
        True,
        "it is kind",
    )
    assert (result["calls"], result["costUsd"]) == (1, pytest.approx((100 * 10 + 20 * 100) / 1e6))
    assert played.sql(STORED.format("kind")) == [(document["jobId"], "scored", 0.9, "asked", 0, False, None)]
    assert played.sql(f"SELECT counted FROM evaluation WHERE job_id = {document['jobId']}") == [(False,)]
    paid = f"SELECT count(*) FROM judge_call WHERE rule_id = '{rule_id}' AND tokens = 120 AND project = 'shop'"
    assert until(lambda: played.sql(paid), lambda rows: rows == [(1,)])


def test_a_later_score_takes_the_place_of_the_one_before(played: Played, rule: Any) -> None:
    """The new score has the next round and supersedes the earlier one."""
    rule_id = rule(**KIND | {"name": "twice"})
    says(played, GOOD)
    first = judge(played, rule_id).json()["jobId"]
    says(played, BAD)
    second = judge(played, rule_id).json()["jobId"]
    assert played.sql(STORED.format("twice")) == [
        (first, "scored", 0.9, "asked", 0, True, None),
        (second, "scored", 0.1, "asked", 1, False, None),
    ]


def test_what_was_judged_as_it_came_is_replaced_and_counted_once(played: Played, rule: Any) -> None:
    """The live score is superseded but stays the one that monitors counted; later jobs get higher ids."""
    conditions = [{"field": "span_type", "op": "=", "value": "llm"}]
    rule_id = rule(**SHORT | {"name": "live", "conditions": conditions})
    other = "7d" * 16
    send(played.running.otlp_http, a_conversation(other))
    ((first, *_),) = until(lambda: played.sql(STORED.format("live")), lambda rows: len(rows) == 1)
    document = judge(played, rule_id, traceId=other).json()
    stored = played.sql(STORED.format("live"))
    assert [(row[0], row[3], row[4], row[5]) for row in stored] == [
        (first, "live", 0, True),
        (document["jobId"], "asked", 1, False),
    ]
    send(played.running.otlp_http, a_conversation("8e" * 16))
    assert until(lambda: played.sql(STORED.format("live")), lambda rows: len(rows) == 3)[2][0] > document["jobId"]


def test_a_check_costs_nothing(played: Played, rule: Any) -> None:
    """No model is called, and the score is stored as for a judge."""
    document = judge(played, rule(**SHORT)).json()
    assert (document["costUsdAtMost"], document["model"], document["result"]["calls"]) == (None, None, 0)
    assert [row[1:5] for row in played.sql(STORED.format("short"))] == [("scored", 1.0, "asked", 0)]


def test_a_trace_is_judged_by_a_rule_about_traces(played: Played, rule: Any) -> None:
    """Its score is one of the trace, and a rule about spans is refused for it."""
    rule_id = rule(**SHORT | {"name": "whole", "target": "TRACE"})
    response = judge(played, rule_id, spanId=None)
    assert response.status_code == 200, response.text
    select = "SELECT trace_id, span_id FROM evaluations WHERE rule = 'whole'"
    assert played.sql(select) == [(TRACE, None)]
    for wrong, why in (
        (judge(played, rule_id), "about each trace"),
        (judge(played, rule(**SHORT), spanId=None), "span"),
    ):
        assert (wrong.status_code, why in wrong.json()["error"]) == (400, True)


def test_the_text_that_is_judged_is_the_text_that_is_shown(played: Played, rule: Any) -> None:
    """The root's own output is judged, listed, promoted and shown with the verdict, whatever a model said last."""
    trace_id, shown = "6c" * 16, f"The refund is approved. {'x' * 400}"
    request = a_conversation(trace_id)
    spans = request.resource_spans[0].scope_spans[0].spans
    root = spans.add(trace_id=spans[0].trace_id, span_id=b"rootspan", name="agent")
    root.start_time_unix_nano, root.end_time_unix_nano = spans[0].start_time_unix_nano, spans[0].end_time_unix_nano
    root.attributes.add(key="output").value.string_value = shown
    spans[0].parent_span_id = root.span_id
    send(played.running.otlp_http, request)
    outputs = f"SELECT output FROM traces WHERE trace_id = '{trace_id}'"
    until(lambda: played.sql(outputs), lambda rows: rows == [(shown,)])
    refund = {"evaluator": "regex", "config": {"pattern": "refund is approved"}, "conditions": NEVER, "target": "TRACE"}
    document = judge(played, rule(name="refund", **refund), traceId=trace_id, spanId=None).json()
    assert document["result"]["passed"] is True
    (metadata,) = played.sql("SELECT metadata FROM evaluations WHERE rule = 'refund'")[0]
    assert json.loads(str(metadata)) == {"judgedOutput": shown[:300], "judgedCharacters": len(shown)}
    with a_client() as client:
        origin = f"{played.origin}/api/v1"
        listed = client.get(f"{origin}/traces", params={"text": "refund is approved"}).json()["content"]
        assert [each["traceId"] for each in listed] == [trace_id]
        client.post(f"{origin}/datasets", json={"name": "refunds"}).raise_for_status()
        promoted = {"datasetName": "refunds", "items": [{"traceId": trace_id, "useOutput": True}]}
        client.post(f"{origin}/datasets/promote", json=promoted).raise_for_status()
    assert shown in str(played.sql("SELECT expected_outputs FROM dataset_item")[0])
    with Visit(played.origin) as visit:
        page = unescape(visit.get(f"/traces/{trace_id}?view=verdicts").text)
    assert "Judged output" in page
    assert "(124 more characters)" in page


def test_a_failed_evaluation_is_reported_and_not_stored(played: Played, rule: Any) -> None:
    """A judge that does not answer, and one without budget, leave the earlier score as it is."""
    rule_id = rule(**KIND | {"name": "broken"})
    says(played, GOOD)
    kept = judge(played, rule_id).json()["jobId"]
    says(played, Status(401))
    failed = judge(played, rule_id).json()
    result = failed["result"]
    assert (failed["jobId"], result["outcome"], result["errorKind"]) == (None, "failed", "not_served")
    assert [(row[0], row[5]) for row in played.sql(STORED.format("broken"))] == [(kept, False)]
    says(played, GOOD)
    poor = judge(played, rule(**KIND | {"name": "poor", "budget": {"callsPerDay": 0}})).json()
    assert (poor["jobId"], poor["result"]["errorKind"], played.models[0].requests) == (None, "over_budget", [])
    assert "the budget of rule 'poor' is too small for this request" in poor["result"]["reason"]


def test_a_jury_votes(played: Played, rule: Any) -> None:
    """Each of three judges is asked once, and most of them decide; the page says what all of them cost at most."""
    rule_id = rule(**KIND | {"name": "voted", "jury": ["two", "three"]})
    says(played, GOOD)
    before = len(played.models[1].requests)
    played.models[1].script = lambda _: BAD
    document = judge(played, rule_id).json()
    assert (document["result"]["passed"], document["result"]["reason"]) == (False, "2 of 3 judges agree. it is rude")
    assert (len(played.models[0].requests), len(played.models[1].requests) - before) == (1, 2)


@pytest.mark.parametrize(
    "keys, why",
    [
        ({"enabled": False}, "switched off"),
        ({"target": "TRACE"}, "about each trace"),
    ],
)
def test_rules_that_cannot_judge_a_span(played: Played, rule: Any, keys: dict[str, Any], why: str) -> None:
    """The answer is 400 with the reason, and the page does not offer them."""
    says(played, GOOD)
    rule_id = rule(**KIND | {"name": "unable"} | keys)
    answer = judge(played, rule_id)
    assert (answer.status_code, why in answer.json()["error"], played.models[0].requests) == (400, True, [])
    with Visit(played.origin) as visit:
        assert "unable" not in visit.get(f"/traces/{TRACE}/judge?span={SPAN}").text


def test_what_is_not_there_is_not_judged(played: Played, rule: Any) -> None:
    """A request about an unknown span, trace or rule gets 404."""
    rule_id = rule(**SHORT | {"name": "lost"})
    assert [
        judge(played, rule_id, spanId="0" * 16).status_code,
        judge(played, rule_id, traceId="0" * 32).status_code,
        judge(played, "nothing").status_code,
    ] == [404] * 3


def test_the_page_offers_rules_with_their_prices(played: Played, rule: Any) -> None:
    """Judges have their maximum cost and checks none; an evaluation without a verdict is reported on the page."""
    rule_id = rule(**KIND | {"name": "offered"})
    rule(**SHORT | {"name": "checked"})
    path = f"/traces/{TRACE}/judge"
    with Visit(played.origin) as visit:
        page = " ".join(unescape(re.sub(r"<[^>]+>", " ", visit.get(f"{path}?span={SPAN}").text)).split())
        assert "offered llm_judge model-one $1.24" in page
        assert "checked length no model nothing" in page
        says(played, Status(401))
        response = visit.send(f"{path}?span={SPAN}", path, span=SPAN, rule=rule_id)
        shown = re.sub(r"<[^>]+>", "", response.text)
        assert "offered gave no verdict (not_served), so nothing is stored" in shown
        says(played, GOOD)
        answer = visit.send(f"{path}?span={SPAN}", path, span=SPAN, rule=rule_id)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/traces/{TRACE}?span={SPAN}#verdicts")
        assert "it is kind" in visit.get(f"/traces/{TRACE}?span={SPAN}").text


def test_a_verdict_stands_in_place_of_why_there_was_none(played: Played, rule: Any) -> None:
    """A span that conditions left out says so until it is judged on request."""
    rule_id = rule(**SHORT | {"name": "left out"})
    other = "9f" * 16
    send(played.running.otlp_http, a_conversation(other))
    decided = f"SELECT 1 FROM decisions WHERE trace_id = '{other}' AND rule = 'left out'"
    until(lambda: played.sql(decided), bool)
    with Visit(played.origin) as visit:

        def why_not() -> str:
            page = visit.get(f"/traces/{other}?span={SPAN}").text
            return page.partition("Why not evaluated")[2].partition("</ul>")[0]

        assert "left out" in why_not()
        assert judge(played, rule_id, traceId=other).status_code == 200
        assert "left out" not in why_not()


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_somebody_has_a_span_judged_in_a_browser(
    played: Played, rule: Any, browser: "Browser", looks: dict[str, Any], *, has_scripts: bool
) -> None:
    """From the span by way of the rules to the verdict beside it."""
    says(played, GOOD)
    name = f"of {looks['viewport']['width']}, {'with' if has_scripts else 'without'} scripts"
    rule(**KIND | {"name": name})
    with a_page(browser, played.origin, java_script_enabled=has_scripts, **looks) as watch:
        page = watch.page
        watch.open(f"/traces/{TRACE}?span={SPAN}")
        page.locator("#span").get_by_role("link", name="Judge it now").click()
        assert (watch.scan() if has_scripts else [], watch.sideways() <= 0) == ([], True)
        page.get_by_role("button", name=f"Judge by {name}").click()
        page.locator("#verdicts").get_by_text("it is kind").first.wait_for()
        assert page.locator("#verdicts").get_by_text(name, exact=True).count() == 1
