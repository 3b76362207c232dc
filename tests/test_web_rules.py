"""The pages of rules: their lists, the effects of their forms, and that no stored text runs as a script."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.web.rules.rules import MAX_COMPARED, steps
from storage.judging.rule_record import PastRevision
from tests.access import Closed, a_closed_server
from tests.browser import PHONE, a_page
from tests.live import until
from tests.paging import SAMPLE_RULES, Shown, Visit, a_shown_server, own_rule, token_on
from tests.serving import a_server, an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("rules")

FORM = {"as": "form", "version": "0", "target": "SPAN", "enabled": "1", "evaluator": "length", "shown": "length"}
FORM["config.maximumOutputLength"] = "400"
Fields: TypeAlias = dict[str, str | list[str]]
MODELS: Fields = {"field": ["span_type"], "op": ["="], "value": ["llm"]}
HOSTILE = '"><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Start one server for all tests."""
    with a_shown_server(tmp_path_factory.mktemp("rules") / "data") as server:
        yield server


@pytest.fixture
def visit(shown: Shown) -> Iterator[Visit]:
    """Yield a browser without scripts."""
    with Visit(shown.origin) as visit:
        yield visit


def rules(shown: Shown) -> dict[str, dict[str, Any]]:
    """Return the active rules, by name."""
    listed = httpx.get(f"{shown.origin}/api/v1/trace-eval-rules").json()["content"]
    return {rule["name"]: rule for rule in listed}


def send(visit: Visit, path: str, **fields: str | list[str]) -> httpx.Response:
    """Send an editor's form, with several fields of a name if it has rows."""
    token = token_on(visit.get(path).text)
    return visit.client.post(visit.origin + path, data={"csrf": token} | FORM | fields)


def made(visit: Visit, **fields: str | list[str]) -> str:
    """Return the id of a new rule."""
    answer = send(visit, "/rules/new", do="save", **fields)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix("/rules/")


def a_span(shown: Shown, kind: str) -> tuple[str, str]:
    """Build a span of some type: its trace and itself."""
    select = f"SELECT trace_id, span_id FROM spans WHERE span_type = '{kind}' ORDER BY span_id LIMIT 1"
    ((trace_id, span_id),) = shown.running.store.queries.sql(select, max_rows=1, timeout_s=10).rows
    return str(trace_id), str(span_id)


def text_of(page: str, place: str) -> str:
    """Return the text of the element with this id."""
    match = re.search(rf'<(\w+)[^>]*\bid="{place}"[^>]*>(.*?)</\1>', page, re.DOTALL)
    assert match is not None, place
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", match[2])).split())


def test_the_list_shows_what_each_rule_did(shown: Shown, visit: Visit) -> None:
    """A rule stands under its project with its counts, and one from a file says which and has no switch."""
    until(lambda: visit.get("/rules").text, lambda text: "50.0 %" in text)
    page = visit.get("/rules").text
    row = page.partition("tool errors")[2].partition("</tr>")[0]
    counts = [int(number) for number in re.findall(r'class="number" title="[\d,]+">(\d+)<', row)]
    assert counts == [3, 2, 2, 1, 0, 0, 0]  # decided, matched, scored, passed, failed, skipped, waiting
    assert "file <bdi>tool-errors.yaml" in row
    assert 'role="switch"' not in row
    assert visit.send("/rules/new", f"/rules/{rules(shown)['tool errors']['id']}/disable").status_code == 409


def test_a_rule_is_made_changed_switched_and_deleted_without_scripts(shown: Shown, visit: Visit) -> None:
    """Each form has the effect of the API, and the page of the rule shows its earlier versions."""
    rule_id = made(visit, name="kept short", project="sample", **MODELS)
    assert rules(shown)["kept short"]["conditions"] == [{"field": "span_type", "op": "=", "value": "llm"}]
    edit = f"/rules/{rule_id}/edit"
    version = re.search(r'name="version" value="(\d+)"', visit.get(edit).text)
    assert version is not None
    fields = {"name": "kept short", "project": "sample", "config.maximumOutputLength": "7", "version": version[1]}
    assert send(visit, edit, do="save", **fields).status_code == 303
    assert rules(shown)["kept short"]["config"] == {"maximumOutputLength": 7}
    again = send(visit, edit, do="save", **(fields | {"config.maximumOutputLength": "8"}))
    assert (again.status_code, "This rule was changed while you edited it" in again.text) == (409, True)
    page = visit.get(f"/rules/{rule_id}").text
    assert "<del><bdi>- conditions:" in page
    assert "<ins><bdi>+   maximumOutputLength: 7" in page
    latest = int(re.findall(r"<b>Revision (\d+)</b>", page)[0])
    assert "All revisions together; a target evaluated by two revisions counts twice." in page
    assert f"evaluated by revision {latest}" in page or "The current revision has made no decisions" in page
    assert "all revisions of a rule" in visit.get("/rules").text
    first = visit.get(f"/rules/{rule_id}?revision={latest - 1}").text
    assert re.findall(r"<b>Revision (\d+)</b>", first)[0] == str(latest - 1)
    assert ("The earliest revision." in first, "Latest revisions" in first) == (True, True)
    for action, is_enabled in (("disable", False), ("enable", True)):
        assert visit.send(f"/rules/{rule_id}", f"/rules/{rule_id}/{action}").status_code == 303
        assert rules(shown)["kept short"]["enabled"] is is_enabled
    assert visit.send(f"/rules/{rule_id}", f"/rules/{rule_id}/delete").headers["location"] == "/rules"
    assert "kept short" not in rules(shown)
    assert visit.get(f"/rules/{rule_id}").status_code == 404


def test_a_switch_leaves_the_text_as_its_author_wrote_it(shown: Shown, visit: Visit) -> None:
    """Comments and order stay when a rule is switched off and on; JSON that is not YAML is written anew."""
    text = "# Why it is there.\nname: mine\nevaluator: tool_error # the check\n"
    path = f"{shown.origin}/api/v1/projects/sample/trace-eval-rules"
    sent = [httpx.post(path, content=text, headers={"content-type": "application/yaml"})]
    sent.append(httpx.post(path, json={"name": "tabs", "evaluator": "tool_error"}))
    for answer in sent:
        rule_id = answer.json()["id"]
        for action in ("disable", "enable", "disable"):
            assert visit.send(f"/rules/{rule_id}", f"/rules/{rule_id}/{action}").status_code == 303
    assert "enabled: false\n# Why it is there.\nname: mine" in unescape(
        visit.get(f"/rules/{sent[0].json()['id']}").text
    )
    assert [rules(shown)[name]["enabled"] for name in ("mine", "tabs")] == [False, False]


def test_everything_that_is_wrong_is_told_at_once_beside_its_field(visit: Visit) -> None:
    """A form with many errors is shown again with each error beside its field and the entered values kept."""
    answer = send(
        visit,
        "/rules/new",
        do="save",
        name="",
        field=["spam_type", "duration_ms"],
        op=["=", ">"],
        value=["tool", "long"],
        sample_rate="2",
        usd="much",
        more="monitor: {alpha: 7}",
        **{"config.maximumOutputLength": "long", "config.treshold": "1"},
    )
    assert answer.status_code == 400
    messages = {
        "wrong-name": "is required",
        "wrong-row0": "did you mean span_type?",
        "wrong-row1": "must be a number",
        "wrong-sample_rate": "from 0 to 1",
        "wrong-usd": "must be a number",
        "wrong-more": "monitor.alpha",
        "wrong-config.maximumOutputLength": "integer",
    }
    assert {place: message in text_of(answer.text, place) for place, message in messages.items()} == dict.fromkeys(
        messages, True
    )
    assert 'value="spam_type"' in answer.text


def test_a_rule_can_be_written_as_yaml_and_both_forms_are_one(visit: Visit, shown: Shown) -> None:
    """A form becomes YAML and YAML a form, errors in YAML name their line, and the YAML is saved as it was written."""
    text = unescape(send(visit, "/rules/new", do="as_text", name="in words").text.partition('spellcheck="false"')[2])
    assert "name: in words\n" in text
    wrong = visit.client.post(
        f"{visit.origin}/rules/new",
        data={
            "csrf": token_on(visit.get("/rules/new").text),
            "as": "text",
            "do": "save",
            "text": "name: a\nevaluator: b\nx: 1",
        },
    )
    assert (wrong.status_code, 'data-line="3"' in wrong.text) == (400, True)
    own = "# kept\nname: in words\nevaluator: tool_error\nconditions:\n  - any:\n      - {field: name, op: exists}\n"
    form = send(visit, "/rules/new", do="as_form", text=own.removeprefix("# kept\n"), **{"as": "text"}).text
    assert 'name="field" value="any"' in form
    assert send(visit, "/rules/new", do="save", text=own, **{"as": "text"}).status_code == 303
    rule = rules(shown)["in words"]
    assert rule["project"] is None
    kept = send(visit, f"/rules/{rule['id']}/edit", do="as_text", **_as_shown(visit, rule["id"])).text
    assert "# kept\nname: in words" in kept


def _as_shown(visit: Visit, rule_id: str) -> Fields:
    """Return the fields of an editor as they stand there."""
    page = visit.get(f"/rules/{rule_id}/edit").text
    pairs = re.findall(r'name="(name|project|field|value)" value="([^"]*)"', page)
    fields: Fields = {name: unescape(value) for name, value in pairs if name in {"name", "project"}}
    for name in ("field", "value"):
        fields[name] = [unescape(value) for each, value in pairs if each == name]
    return fields | {"op": ["="] * len(fields["field"]), "evaluator": "tool_error"}


def test_a_preview_says_what_would_match_and_evaluates_examples(shown: Shown, visit: Visit) -> None:
    """Before anything is saved: how many spans match, which clause keeps others out, and what a check says of three."""
    before = set(rules(shown))
    page = send(visit, "/rules/new", name="a", **MODELS).text
    text = text_of(page, "preview")
    ((spans, models),) = shown.running.store.queries.sql(
        "SELECT count(*), count(*) FILTER (span_type = 'llm') FROM spans", max_rows=1, timeout_s=10
    ).rows
    assert f"{models} of {spans} spans of the last day would be evaluated" in text
    assert 'not span_type = "llm"' in text
    assert text.count("passed 1 The output has") == 3
    assert set(rules(shown)) == before
    failing = send(
        visit,
        "/rules/new",
        name="a",
        **(MODELS | {"config.maximumOutputLength": "1"}),
    )
    assert text_of(failing.text, "preview").count("failed 0 The output has") == 3


def test_of_many_spans_the_newest_are_looked_at(shown: Shown) -> None:
    """If a window has more spans than a preview checks, the preview covers the newest ones and says when they begin."""
    record, store = shown.running.store.rule_record, shown.running.store
    starts = store.queries.sql(
        "SELECT epoch_ns(start_time) FROM spans ORDER BY start_time DESC", max_rows=99, timeout_s=10
    )
    spans = len(starts.rows)
    assert record.start_of_newest(0, 3) == (starts.rows[2][0], spans)
    assert record.start_of_newest(0, spans) == (None, spans)
    assert record.start_of_newest(2**62, 1) == (None, 0)


def test_a_preview_asks_no_judge(visit: Visit) -> None:
    """The preview of a rule with a judge says how often the judge would be called, and that it is not called now."""
    fields = {"evaluator": "llm_judge", "config.criteria": "Is it kind?"}  # fields of the other evaluator are dropped
    text = text_of(send(visit, "/rules/new", name="a", **fields).text, "preview")
    assert "calls a day" in text
    assert "There is no budget" in text
    assert "The preview makes no judge calls" in text


def test_a_rule_is_made_from_a_span(shown: Shown, visit: Visit) -> None:
    """The form is filled from a span, and its conditions match that span."""
    trace_id, span_id = a_span(shown, "tool")
    page = visit.get(f"/rules/new?from={trace_id}/{span_id}").text
    rows = re.findall(r'name="field" value="(\w+)".*?name="value" value="([^"]+)"', page, re.DOTALL)
    assert {name for name, _ in rows} == {"service", "name", "span_type", "tool_name"}
    assert dict(rows)["span_type"] == "tool"
    filled: Fields = {
        "field": [name for name, _ in rows],
        "op": ["="] * len(rows),
        "value": [value for _, value in rows],
    }
    seen = send(visit, "/rules/new", name="like", **(filled | {"evaluator": "tool_error"}))
    assert span_id in seen.text.partition('id="preview"')[2]
    assert visit.get(f"/rules/new?from={trace_id}/{'0' * 16}").status_code == 404


def test_a_backfill_is_started_shown_and_ended(visit: Visit) -> None:
    """The form runs the rule over stored spans; invalid instants are refused."""
    rule_id = made(visit, name="later", project="sample", **MODELS)
    page = f"/rules/{rule_id}"
    for wrong in (
        {"from": "yesterday", "to": "2026-01-01T00:00"},
        {"from": "2026-01-02T00:00", "to": "2026-01-01T00:00"},
    ):
        assert visit.send(page, f"{page}/backfills", **wrong).status_code == 400
    assert (
        visit.send(page, f"{page}/backfills", **{"from": "2020-01-01T00:00", "to": "2100-01-01T00:00"}).status_code
        == 303
    )
    until(lambda: visit.get(page).text, lambda text: ">done</span>" in text)
    until(lambda: visit.get(page).text, lambda text: "The output has" in text)
    run = httpx.get(f"{visit.origin}/api/v1/projects/sample/trace-eval-rules/{rule_id}/backfills").json()[0]
    assert visit.send(page, f"{page}/backfills/{run['id']}/cancel").status_code == 409
    assert visit.send(page, f"{page}/backfills/nothing/cancel").status_code == 404
    assert "condition not met" in visit.get(page).text


def test_hostile_names_stay_texts(shown: Shown, browser: "Browser") -> None:
    """Rules and spans whose names are markup run nothing and break no page, in lists, forms and differences."""
    trace_id = "ab" * 16
    request: ExportTraceServiceRequest = an_export(trace_id, HOSTILE, project=HOSTILE)
    post(f"http://{shown.running.otlp_http}/v1/traces", request.SerializeToString())
    until(lambda: httpx.get(f"{shown.origin}/api/v1/traces/{trace_id}").status_code, lambda status: status == 200)
    like = f"/rules/new?from={trace_id}/{1:016x}"
    with Visit(shown.origin) as visit:
        conditions = {"field": ["name", "service"], "op": ["=", "="], "value": [HOSTILE, HOSTILE]}
        rule_id = made(
            visit, name=HOSTILE, project=HOSTILE, **conditions, more=json.dumps({"expected": {"a": HOSTILE}})
        )
        fields: Fields = {
            "name": HOSTILE,
            "project": HOSTILE,
            "version": "1",
            "field": ["name"],
            "op": ["="],
            "value": ["x" * 900],
        }
        assert send(visit, f"/rules/{rule_id}/edit", do="save", **fields).status_code == 303
    with a_page(browser, shown.origin, viewport=PHONE) as watch:
        for path in ("/rules", f"/rules/{rule_id}", f"/rules/{rule_id}/edit", like):
            watch.open(path)
            assert watch.page.query_selector("main img, main script") is None
            assert watch.sideways() <= 0
            assert watch.scan() == []


def test_the_editor_looks_while_somebody_writes(shown: Shown, browser: "Browser") -> None:
    """Typing changes the preview without a button, rows come and go, and another evaluator brings its settings."""
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/rules/new")
        page.fill("[name=name]", "typed")
        page.fill(".condition:nth-child(1) [name=field]", "span_type")
        page.fill(".condition:nth-child(1) [name=value]", "llm")
        page.wait_for_selector("#preview:has-text('not span_type = \"llm\"')")
        page.click("[data-add]")
        page.fill(".condition:nth-child(2) [name=field]", "nothing")
        page.fill(".condition:nth-child(2) [name=value]", "x")
        page.focus("[name=name]")
        page.wait_for_selector("#wrong-row1:has-text('there is no field')")
        page.click(".condition:nth-child(2) [data-remove]")
        page.select_option("[name=evaluator]", "regex")
        page.wait_for_selector("[name='config.pattern']")
        page.fill("[name='config.pattern']", ".")
        page.wait_for_selector("#preview:has-text('Evaluated for this preview')")
        page.click("button[value=save]")
        page.wait_for_url("**/rules/*")
        page.wait_for_selector("h1:has-text('typed')")
    assert rules(shown)["typed"]["config"] == {"pattern": "."}


def test_a_rule_is_written_with_the_keyboard_alone(shown: Shown, browser: "Browser") -> None:
    """An active rule is made from the list with Tab, Enter and letters; Enter in a field previews and saves nothing."""
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/rules")
        page.focus("text=New rule")
        page.keyboard.press("Enter")
        page.wait_for_selector("[name=name]:focus")
        page.keyboard.type("by keys")
        page.keyboard.press("Enter")
        page.wait_for_selector("#preview:has-text('would be evaluated')")
        assert "by keys" not in rules(shown)
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.value") == "save":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('by keys')")
    assert rules(shown)["by keys"]["evaluator"] == "tool_error"


def test_the_list_opens_by_keys_and_switches(shown: Shown, browser: "Browser") -> None:
    """The key j and Enter open a rule, u leads back, and the switch shows whether the rule is active."""
    rule_id = own_rule(shown)
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/rules")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("h2:has-text('Definition')")
        page.keyboard.press("u")
        page.wait_for_selector("h1:has-text('Rules')")
        switch = f"#rule-{rule_id} [role=switch]"
        is_on = page.get_attribute(switch, "aria-checked")
        page.click(switch)
        page.wait_for_selector(f"{switch}[aria-checked={'false' if is_on == 'true' else 'true'}]")


def test_only_editors_see_forms(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A viewer reads rules, is shown no way to change them, and his forms are refused."""
    with a_closed_server(tmp_path_factory.mktemp("closed") / "data", rules=SAMPLE_RULES) as closed:
        for key, may_write in (("editor", True), ("viewer", False)):
            with _signed_in(closed, key) as visit:
                page = visit.get("/rules").text
                assert ("New rule" in page) is may_write
                rule_id = page.partition('data-open href="/rules/')[2].partition('"')[0]
                rule = visit.get(f"/rules/{rule_id}").text
                assert ">YAML<" in rule
                assert ("/backfills" in rule) is may_write
                assert visit.get("/rules/new").status_code == (200 if may_write else 403)
                answer = visit.client.post(f"{visit.origin}/rules/new", data={"csrf": token_on(page)} | FORM)
                assert answer.status_code == (200 if may_write else 403)


def test_tenants_look_after_their_own_rules(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A tenant sees shared rules and cannot change them; no other tenant sees the rules that it makes."""
    with a_closed_server(tmp_path_factory.mktemp("tenants") / "data", rules=SAMPLE_RULES) as closed:
        with _signed_in(closed, "editor of acme") as visit:
            page = visit.get("/rules").text
            shared = page.partition('data-open href="/rules/')[2].partition('"')[0]
            assert "/backfills" not in visit.get(f"/rules/{shared}").text
            for path in (f"/rules/{shared}/disable", f"/rules/{shared}/delete", f"/rules/{shared}/backfills"):
                sent = visit.client.post(f"{visit.origin}{path}", data={"csrf": token_on(page)})
                assert sent.status_code == 403, path
            fields = {"csrf": token_on(page), "do": "save", "name": "own", "project": "shop"} | FORM | MODELS
            made = visit.client.post(f"{visit.origin}/rules/new", data=fields)
            assert made.status_code == 303
            own = made.headers["location"]
        (kept,) = [each for each in closed.running.context.rules.kept() if each.stored.origin == "API"]
        assert (kept.stored.tenant, own) == ("acme", f"/rules/{kept.stored.rule_id}")
        with _signed_in(closed, "editor of other") as visit:
            assert own not in visit.get("/rules").text
            assert visit.get(own).status_code == 404


def _signed_in(closed: Closed, key: str) -> Visit:
    visit = Visit(f"http://{closed.running.http}")
    visit.send("/sign-in", "/sign-in", key=closed.keys[key])
    return visit


def test_problems_of_files_are_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that is not a rule is named on the list with its line and the error."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "wrong.yaml").write_text("name: a\nevaluator: no_such\n", encoding="utf-8")
    data = tmp_path_factory.mktemp("problems") / "data"
    with a_server(data, rules=folder) as running, Visit(f"http://{running.http}") as visit:
        page = unescape(visit.get("/rules").text)
    assert "wrong.yaml" in page
    assert ":2</span>" in page
    assert "there is no evaluator 'no_such'" in page
    assert "No rules yet" in page


def test_a_page_compares_a_bounded_amount_of_revisions() -> None:
    """Long revisions are compared one by one, too long ones not at all, and short ones all at once."""

    def revisions(size: int) -> list[PastRevision]:
        return [
            PastRevision(
                revision=number,
                digest=f"{number:064x}",
                rule="long",
                project=None,
                document=json.dumps({"name": "long", "description": str(number) * size}),
                created_at_ns=number,
            )
            for number in range(9, 0, -1)
        ]

    def compared(size: int) -> list[int]:
        return [each.revision.revision for each in steps(revisions(size)) if each.lines]

    assert compared(100) == [9, 8, 7, 6, 5, 4, 3, 2]
    assert compared(MAX_COMPARED // 3) == [9]
    assert compared(MAX_COMPARED) == []
    assert [each.is_too_long for each in steps(revisions(MAX_COMPARED))] == [True] * 8 + [False]
