"""The button that asks a judge about examples of a rule being written: its cost, and who may press it."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from collector.app import Running
from collector.live.jobs import trials
from collector.sample import send_sample
from tests.access import a_closed_server
from tests.browser import DESK, PHONE, a_page
from tests.connecting import ENCRYPTION_KEY, a_connection
from tests.live import until
from tests.model_server import Hangs, ModelRequest, ModelServer, Says, Status, a_model
from tests.paging import Visit, token_on
from tests.serving import PROTOBUF, START_NS, a_server, an_export

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("operations", "rules")

GOOD = Says({"reason": "it is kind", "score": 0.9})
RULE = {
    "as": "form",
    "version": "0",
    "target": "SPAN",
    "name": "kind",
    "evaluator": "llm_judge",
    "shown": "llm_judge",
    "config.criteria": "Is it kind?",
    "connection": "judge",
    "field": "span_type",
    "op": "=",
    "value": "llm",
}
PRICE = {"inputUsdPerMillion": 10, "outputUsdPerMillion": 100}


@dataclass(slots=True, kw_only=True)
class Judged:
    """A server with the sample in it, and the model of its connection."""

    running: Running
    model: ModelServer
    visit: Visit
    connection_id: str = ""

    def connect(self, **keys: object) -> None:
        """Make the connection `judge` another one."""
        connections = self.running.context.judging.connections
        document = a_connection(self.model.base_url, **keys)
        if self.connection_id:
            connections.replace(self.connection_id, document)
        else:
            self.connection_id = connections.create(document).connection_id

    def says(self, script: Callable[[ModelRequest], Any]) -> None:
        """Set the model's answer, and forget its requests."""
        self.model.script = script
        self.model.requests.clear()

    def send(self, do: str = "judge", **fields: str) -> httpx.Response:
        """Send the form of a new rule with a button pressed."""
        return self.visit.send("/rules/new", "/rules/new", **(RULE | {"do": do} | fields))

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Query the server; return the rows."""
        return [tuple(row) for row in self.running.store.queries.sql(statement, max_rows=100, timeout_s=10).rows]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """Start one server for all tests."""
    with (
        a_model(GOOD) as model,
        a_server(tmp_path_factory.mktemp("asked") / "data") as running,
        Visit(f"http://{running.http}") as visit,
    ):
        sent = send_sample(grpc=running.grpc, otlp_http=running.otlp_http)
        wait_stored(running, sent.grpc_spans + sent.otlp_http_spans)
        yield Judged(running=running, model=model, visit=visit)


def wait_stored(running: Running, spans: int) -> None:
    """Wait until `spans` spans are stored and read."""
    select = "SELECT count(*) FROM spans"
    until(
        lambda: running.store.queries.sql(select, max_rows=1, timeout_s=10).rows,
        lambda rows: int(str(rows[0][0])) >= spans,
    )
    running.traces.wait_idle(30)


def examples(page: str) -> list[str]:
    """Return the text beside each example."""
    part = page.partition('<ul class="examples">')[2].partition("</ul>")[0]
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", each)).split()) for each in part.split("<li>")[1:]]


def words(page: str) -> str:
    """Return the text of the preview."""
    return " ".join(
        unescape(re.sub(r"<[^>]+>", " ", page.partition('id="preview"')[2].partition("</section>")[0])).split()
    )


def test_nothing_is_asked_before_the_button_is_pressed(judged: Judged) -> None:
    """A preview shows the highest cost of asking, by the prices of the connection, and spends nothing."""
    judged.connect(price=PRICE, maxOutputTokens=1000)
    judged.says(lambda _: GOOD)
    text = words(judged.send("preview").text)
    assert ("Call the judge on these 3" in text, judged.model.requests) == (True, [])
    assert "at most $5.40 . The actual cost is usually far lower" in text  # three times 100,000 tokens in and 8,000 out
    judged.connect(price=PRICE)
    assert "assuming at most 4,096 tokens per response" in words(judged.send("preview").text)
    judged.connect()
    assert "the connection has no prices" in words(judged.send("preview").text)
    assert "Call the judge" not in words(judged.send("preview", value="nothing like it").text)


def test_the_prompt_is_shown_and_nobody_is_asked(judged: Judged) -> None:
    """What the judge would be asked about the newest example, with its template, on the page and over the API."""
    judged.connect()
    judged.says(lambda _: GOOD)
    template = "version: 2\n[system]\nBe a lawyer: {{criteria}}\n[user]\n{{input}} and {{actual_output}}"
    text = words(judged.send("prompt", **{"config.template": template}).text)
    assert "Be a lawyer: Is it kind?" in text
    assert "It is data" in text
    assert "<data-" in text
    assert "Call the judge on these 3" in text
    broken = judged.send("prompt", **{"config.template": "no version"}).text
    assert "must begin with a line `version: 1`" in unescape(broken)
    rule = {
        "name": "kind",
        "evaluator": "llm_judge",
        "config": {"criteria": "Is it kind?", "template": template},
        "conditions": [{"field": "span_type", "op": "=", "value": "llm"}],
    }
    base = f"http://{judged.running.http}/api/v1/projects/sample/trace-eval-rules/test"
    document = httpx.post(base, params={"prompt": "true"}, json=rule).json()
    system, user = document["prompt"]["messages"]
    assert (system["role"], user["role"], document["prompt"]["problem"]) == ("system", "user", None)
    assert system["content"].startswith("Be a lawyer: Is it kind?")
    assert " and <data-" in user["content"]
    assert "prompt" not in httpx.post(base, json=rule).json()
    assert judged.model.requests == []


def test_the_judge_says_something_of_each_example(judged: Judged) -> None:
    """Each has its verdict after one request, which is counted, and neither a rule nor a result is stored."""
    judged.connect(price=PRICE, maxOutputTokens=1000)
    judged.says(lambda _: GOOD)
    assert judged.running.store.spending.flush(60)
    before = judged.sql("SELECT (SELECT count(*) FROM evaluations), (SELECT count(*) FROM judge_call)")
    page = judged.send().text
    assert len(judged.model.requests) == 3
    assert all("Is it kind?" in each.system + each.user for each in judged.model.requests)
    assert [("passed 0.9" in each, "it is kind" in each) for each in examples(page)] == [(True, True)] * 3
    assert "The judge was called: 3 calls, 360 tokens, $0.0090" in words(page)
    ((evaluations, calls),) = before
    counted = "SELECT (SELECT count(*) FROM evaluations), (SELECT count(*) FROM judge_call WHERE tokens IS NOT NULL)"
    until(lambda: judged.sql(counted), lambda rows: rows == [(evaluations, int(str(calls)) + 3)])
    assert judged.sql("SELECT DISTINCT rule_id, job_id, project, connection_id FROM judge_call") == [
        ("drafts", None, "sample", judged.connection_id)
    ]
    assert not judged.running.context.rules.kept()
    assert "(rule previews)" in unescape(judged.visit.get("/status").text)


def test_a_jury_votes_on_each_example(judged: Judged) -> None:
    """All judges are named with their total cost; each is asked about each example, and the majority decides."""
    judged.connect(price=PRICE, maxOutputTokens=1000)
    connections = judged.running.context.judging.connections
    document = a_connection(judged.model.base_url, price=PRICE, maxOutputTokens=1000)
    others = [connections.create(document | {"name": name, "model": f"{name} one"}) for name in ("strict", "mild")]
    try:
        scores = {"strict one": 0.1, "mild one": 0.7}
        judged.says(lambda request: Says({"reason": "so", "score": scores.get(request.body["model"], 0.9)}))
        offered = words(judged.send("preview", more="jury: [strict, mild]").text)
        assert (
            "strict one over connection strict and mild one over connection mild vote on the newest examples" in offered
        )
        assert ("at most $16.20" in offered, judged.model.requests) == (True, [])  # three times that of one judge
        page = judged.send(more="jury: [strict, mild]").text
        assert ["2 of 3 judges agree. so" in each for each in examples(page)] == [True] * 3
        assert "The judge was called: 9 calls, 1,080 tokens, $0.027" in words(page)
        connections.replace(others[0].connection_id, document | {"name": "strict", "credentialRef": "NO_SUCH_KEY"})
        assert "NO_SUCH_KEY" in words(judged.send("preview", more="jury: [strict, mild]").text)
    finally:
        for each in others:
            connections.delete(each.connection_id)


def test_what_goes_wrong_is_told_beside_its_example(judged: Judged) -> None:
    """One that cannot be read and one that is refused leave the verdict of the third."""
    judged.connect()
    answers = iter([GOOD, Status(401), Says("no idea")])
    judged.says(lambda _: next(answers))
    text = examples(judged.send().text)
    assert sorted(kind for each in text for kind in ("it is kind", "not_served", "bad_reply") if kind in each) == [
        "bad_reply",
        "it is kind",
        "not_served",
    ]


def test_what_nobody_knows_is_told_as_it_is_counted(judged: Judged) -> None:
    """The cost of a judge that does not answer is that in the budget: the reserved amount."""
    judged.connect(price=PRICE, limits={"attempts": 1, "timeoutSeconds": 0.3})
    judged.says(lambda _: Hangs())
    before = spent_on(judged)
    page = words(judged.send().text)
    calls, tokens, usd = (now - then for now, then in zip(spent_on(judged), before, strict=True))
    assert (calls, tokens > 3 * 4096, usd > 3 * 0.4) == (3, True, True)
    assert f"3 calls, {tokens:,} tokens, ${usd:.2f}" in page


def spent_on(judged: Judged) -> tuple[int, int, float]:
    """Return the calls, tokens and USD of the connection today."""
    spent = judged.running.context.judging.budgets.today()
    of_connection = [each for each in spent if each.identity == judged.connection_id]
    return (of_connection[0].calls, of_connection[0].tokens, of_connection[0].usd) if of_connection else (0, 0, 0.0)


def test_the_budget_of_the_connection_is_kept(judged: Judged) -> None:
    """A call beyond the budget is not made, and the example names the exhausted budget."""
    calls, _, _ = spent_on(judged)
    judged.connect(budget={"callsPerDay": calls + 1})
    judged.says(lambda _: GOOD)
    text = examples(judged.send().text)
    assert (len(judged.model.requests), sum("the budget of connection 'judge'" in each for each in text)) == (1, 2)


def test_requests_keep_to_the_limits_of_the_connection(judged: Judged) -> None:
    """Over a connection that is asked one thing at a time, no two examples are asked about at once."""
    under_way: list[int] = []
    most = 0

    def script(_: ModelRequest) -> Says:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        time.sleep(0.05)  # so that a second one would be seen
        under_way.pop()
        return GOOD

    judged.connect(limits={"inFlight": 1, "attempts": 1})
    judged.says(script)
    assert (len(examples(judged.send().text)), len(judged.model.requests), most) == (3, 3, 1)


def test_nobody_waits_for_ever(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that does not answer is given up after the time that an example has."""
    monkeypatch.setattr(trials, "CALLS_TIMEOUT_S", 0.3)
    judged.connect()
    judged.says(lambda _: Hangs())
    text = examples(judged.send().text)
    assert [("timeout" in each, "not finished within 0.3 s" in each) for each in text] == [(True, True)] * 3


def test_a_connection_that_cannot_be_used_says_why(judged: Judged) -> None:
    """A key that the server lacks, or a budget in USD without a price, is reported instead of a button."""
    judged.connect(credentialRef="NO_SUCH_KEY_ANYWHERE")
    judged.says(lambda _: GOOD)
    for text in (words(judged.send(do).text) for do in ("preview", "judge")):
        assert ("The judge is unavailable" in text, "NO_SUCH_KEY_ANYWHERE" in text) == (True, True)
    judged.connect()
    text = words(judged.send(usd="1").text)
    assert ("has no price" in text, "Call the judge" in text, judged.model.requests) == (True, False, [])


def test_a_long_example_is_not_asked_about(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """What might take more than was said is refused before anything leaves."""
    monkeypatch.setattr(trials, "_MOST_INPUT", 10)
    judged.connect()
    judged.says(lambda _: GOOD)
    text = examples(judged.send().text)
    assert [("over_budget" in each, "it may take 10 tokens in" in each) for each in text] == [(True, True)] * 3
    assert judged.model.requests == []


def test_only_who_may_write_rules_may_ask(tmp_path: Path) -> None:
    """A viewer, and a form without its token, spend nothing; an editor of a tenant asks about its spans alone."""
    at_s = int(time.time()) - START_NS // 10**9 - 60
    settings = {"webhook_private_hosts": ("127.0.0.1",), "encryption_key": ENCRYPTION_KEY}
    with a_model(GOOD) as model, a_closed_server(tmp_path / "data", **settings) as closed:
        connections = closed.running.context.judging.connections
        for tenant in ("", "acme"):
            connections.create(a_connection(model.base_url, model=f"judge-{tenant}"), tenant)
        for number, key in enumerate(("editor", "editor of acme", "editor of other")):
            body = an_export(f"{number + 1:032x}", f"span of {key}", at_s=at_s).SerializeToString()
            headers = {"content-type": PROTOBUF, "authorization": f"Bearer {closed.keys[key]}"}
            sent = httpx.post(f"http://{closed.running.otlp_http}/v1/traces", content=body, headers=headers)
            assert sent.is_success
        wait_stored(closed.running, 3)
        rule = RULE | {"do": "judge", "field": "name", "op": "contains", "value": "span of"}
        rule["config.evaluationParams"] = '["INPUT"]'
        for key, status, models in (("viewer", 403, []), ("editor of acme", 200, ["judge-acme"])):
            with Visit(f"http://{closed.running.http}") as visit:
                visit.send("/sign-in", "/sign-in", key=closed.keys[key])
                assert visit.client.post(f"{visit.origin}/rules/new", data=rule).status_code == 403
                assert model.requests == []
                token = token_on(visit.get("/rules").text)
                assert visit.client.post(f"{visit.origin}/rules/new", data=rule | {"csrf": token}).status_code == status
                assert [each.body["model"] for each in model.requests] == models
        assert "asked span of editor of acme" in model.requests[0].user
        with Visit(f"http://{closed.running.http}") as visit:  # the operator, about the rule of the tenant
            visit.send("/sign-in", "/sign-in", key=closed.keys["editor of acme"])
            place = visit.send("/rules", "/rules/new", **(rule | {"do": "save"})).headers["location"]
            visit.send("/sign-in", "/sign-in", key=closed.keys["operator"])
            model.requests.clear()
            page = visit.send(f"{place}/edit", f"{place}/edit", **rule).text
            assert (len(examples(page)), [each.body["model"] for each in model.requests]) == (1, ["judge-acme"])
            assert "asked span of editor of acme" in model.requests[0].user
        assert {each.identity for each in closed.running.context.judging.budgets.today() if each.kind == "rule"} == {
            "drafts",
            place.rpartition("/")[2],
        }


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_the_button_is_pressed_in_a_browser(
    judged: Judged, browser: "Browser", looks: dict[str, Any], *, has_scripts: bool
) -> None:
    """With scripts or without, the page says what the judge said, and everybody can use it."""
    judged.connect(price=PRICE)
    judged.says(lambda _: GOOD)
    with a_page(browser, judged.visit.origin, java_script_enabled=has_scripts, **looks) as watch:
        page = watch.page
        watch.open("/rules/new")
        page.fill("[name=name]", "kind")
        page.fill(".condition:nth-child(1) [name=field]", "span_type")
        page.fill(".condition:nth-child(1) [name=value]", "llm")
        page.select_option("[name=evaluator]", "llm_judge")
        if not has_scripts:
            page.get_by_role("button", name="Show settings").click()
        page.fill("[name='config.criteria']", "Is it kind?")
        page.select_option("[name=connection]", "judge")
        if not has_scripts:
            page.get_by_role("button", name="Preview").last.click()
        page.get_by_role("button", name="Call the judge on these 3").click()
        page.get_by_text("The judge was called").wait_for()
        assert (page.locator(".examples .badge.good").count(), len(judged.model.requests)) == (3, 3)
        assert (watch.scan() if has_scripts else [], watch.sideways() <= 0) == ([], True)


def test_what_stored_days_cost_is_told_before_a_judge_is_asked_about_them(judged: Judged) -> None:
    """Saving with days whose cost was not shown shows it and saves nothing; saved again, the judge is asked."""
    judged.connect(price=PRICE, maxOutputTokens=1000)
    judged.says(lambda _: GOOD)
    first = judged.send("save", name="back", enabled="1", project="sample", also_days="2")
    assert (first.status_code, judged.model.requests) == (400, [])
    text = unescape(re.sub(r"<[^>]+>", " ", first.text.partition('id="also"')[2].partition("</fieldset>")[0]))
    assert re.search(r"each with a judge call:\s+at most\s+\$[\d.]+", text)
    seen = re.search(r'name="also_shown" value="(\w+)"', first.text)
    assert seen is not None
    other = judged.send("save", name="back", enabled="1", project="sample", also_days="20", also_shown=seen[1])
    assert other.status_code == 400
    saved = judged.send("save", name="back", enabled="1", project="sample", also_days="2", also_shown=seen[1])
    assert (saved.status_code, saved.headers["location"].endswith("#backfills")) == (303, True)
    until(lambda: len(judged.model.requests), bool)
