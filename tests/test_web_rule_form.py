"""The form of a rule: its choices, the moment of its errors, and the evaluation of stored days."""

import datetime as dt
import re
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING

import httpx
import pytest

from evaluators.registry import KINDS
from tests.browser import PHONE, a_page
from tests.live import until
from tests.paging import Shown, Visit, a_shown_server, own_rule, version_on
from tests.test_web_rules import MODELS, rules, send, text_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("rules")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Start one server for all tests."""
    with a_shown_server(tmp_path_factory.mktemp("form") / "data") as server:
        yield server


@pytest.fixture
def visit(shown: Shown) -> Iterator[Visit]:
    """Yield a browser without scripts."""
    with Visit(shown.origin) as visit:
        yield visit


def runs_of(shown: Shown, name: str) -> list[dict[str, str]]:
    """Return the backfills of a rule."""
    path = f"api/v1/projects/sample/trace-eval-rules/{rules(shown)[name]['id']}/backfills"
    document: list[dict[str, str]] = httpx.get(f"{shown.origin}/{path}").json()
    return document


def test_evaluators_stand_in_groups_with_a_line_each(visit: Visit) -> None:
    """The choice shows what each of them checks, and which groups ask a model."""
    page = visit.get("/rules/new").text
    listed = page.partition("data-evaluator")[2].partition("</select>")[0]
    descriptions = {name: unescape(line) for name, line in re.findall(r'<option value="(\w+)"[^>]*>([^<]+)<', listed)}
    assert descriptions == {name: f"{name}: {kind.checks}" for name, kind in KINDS.items() if name != "code_judge"}
    groups = re.findall(r'optgroup label="([^"]+)"', listed)
    assert len(groups) == len(set(groups)) == 5
    assert [name for name in groups if "without a model" in name] == groups[:2]


def test_names_and_values_of_fields_are_offered(shown: Shown, visit: Visit) -> None:
    """A condition may be about any field, and about attributes that spans have; a field with few values lists them."""
    page = visit.get("/rules/new").text
    names = re.findall(
        r'<option value="([^"]+)"', page.partition('datalist id="fields"')[2].partition("</datalist>")[0]
    )
    select = "SELECT DISTINCT unnest(map_keys(attributes)) FROM spans"
    stored = shown.running.store.queries.sql(select, max_rows=1000, timeout_s=10).rows
    assert {"span_type", "trace.cost_usd", "any"} <= set(names)
    assert {f"attributes.{key}" for (key,) in stored} <= set(names)
    types = page.partition('datalist id="values-span_type"')[2].partition("</datalist>")[0]
    assert re.findall(r'value="(\w+)"', types)[:2] == ["agent", "llm"]
    again = send(visit, "/rules/new", name="a", **MODELS).text
    assert 'value="llm" list="values-span_type"' in again


def test_what_few_rules_set_is_folded_until_it_is_set(shown: Shown, visit: Visit) -> None:
    """A blank form has its rare parts closed, and a part with something in it, or wrong, is open."""
    folded = re.compile(r'<details class="folded"( open)?><summary>([^<]+)<')
    blank = folded.findall(visit.get("/rules/new").text)
    assert (len(blank), [label for is_open, label in blank if is_open]) == (4, [])
    page = send(visit, "/rules/new", name="a", calls="5", sample_rate="2", compare_by="service.name", **MODELS).text
    assert [label[:4] for is_open, label in folded.findall(page) if is_open] == ["Samp", "Dail", "More"]
    kept = folded.findall(visit.get(f"/rules/{own_rule(shown)}/edit").text)
    assert [label for is_open, label in kept if is_open] == ["Daily budget"]


def test_stored_days_are_evaluated_once_the_rule_is_saved(shown: Shown, visit: Visit) -> None:
    """A check says how many evaluations the days are, and saving starts the backfill over just these."""
    seen = send(visit, "/rules/new", name="too", project="sample", also_days="3", **MODELS)
    ((models,),) = shown.running.store.queries.sql(
        "SELECT count(*) FROM spans WHERE span_type = 'llm' AND project = 'sample'", max_rows=1, timeout_s=10
    ).rows
    assert f"About {models} evaluations , without judge calls or cost" in text_of(seen.text, "also")
    assert "too" not in rules(shown)
    saved = send(visit, "/rules/new", do="save", name="too", project="sample", also_days="3", **MODELS)
    assert (saved.status_code, saved.headers["location"].partition("#")[2]) == (303, "backfills")
    (run,) = runs_of(shown, "too")
    begin, end = (dt.datetime.fromisoformat(run[name]) for name in ("from", "to"))
    assert end - begin == dt.timedelta(days=3)
    done = until(lambda: runs_of(shown, "too"), lambda runs: runs[0]["state"] == "done")
    assert int(done[0]["matched"]) == models
    send(visit, "/rules/new", do="save", name="not too", project="sample", also_days="0", **MODELS)
    assert runs_of(shown, "not too") == []


def test_a_rule_is_saved_though_no_backfill_starts(shown: Shown, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many backfills as there may be, the form says that the rule is saved, and goes on with that rule."""
    monkeypatch.setattr("collector.live.matching.backfill._MOST_OF_RULE", 0)
    saved = send(visit, "/rules/new", do="save", name="alone", project="sample", also_days="1", **MODELS)
    assert (saved.status_code, runs_of(shown, "alone")) == (409, [])
    assert "The rule is saved, but the backfill did not start" in saved.text
    path = f"/rules/{rules(shown)['alone']['id']}/edit"
    assert f'action="{path}"' in saved.text
    again = send(visit, path, do="save", name="alone", project="sample", **version_on(saved.text), **MODELS)
    assert again.status_code == 303


@pytest.mark.parametrize("days", ["366", "-1", "1.5", "soon", "\u0663"])
def test_days_that_are_none_are_told_beside_their_field(shown: Shown, visit: Visit, days: str) -> None:
    """Nothing is saved, and the typed value stays."""
    answer = send(visit, "/rules/new", do="save", name="wrong days", also_days=days, **MODELS)
    assert (answer.status_code, f'value="{days}"' in answer.text) == (400, True)
    assert "a whole number of days, up to 365" in text_of(answer.text, "wrong-also_days")
    assert "wrong days" not in rules(shown)


def test_a_rule_that_is_off_evaluates_nothing_stored(shown: Shown, visit: Visit) -> None:
    """It is refused beside the field, in the form and in YAML."""
    text = "name: off\nenabled: false\nevaluator: tool_error\n"
    answer = send(visit, "/rules/new", do="save", text=text, also_days="1", **{"as": "text"})
    assert (answer.status_code, "the rule is disabled" in text_of(answer.text, "wrong-also_days")) == (400, True)
    assert "off" not in rules(shown)


def test_what_is_wrong_is_told_once_its_field_is_left(shown: Shown, browser: "Browser") -> None:
    """While a field is typed in nothing turns red; then it stands beside its field, and goes when it is right."""
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/rules/new")
        page.select_option("[name=evaluator]", "regex")
        page.wait_for_selector("[name='config.pattern']")
        name, pattern = page.locator("#wrong-name"), page.locator("[id='wrong-config.pattern']")
        until(name.text_content, lambda text: "required" in str(text))
        assert (pattern.is_visible(), page.locator("#problems .counted").is_visible()) == (False, False)
        page.get_by_role("textbox", name="Name", exact=True).fill("kind")
        page.get_by_role("textbox", name=re.compile("^pattern")).focus()
        page.keyboard.press("Tab")
        pattern.wait_for(state="visible")
        assert page.get_by_role("textbox", name=re.compile("^pattern")).get_attribute("aria-invalid") == "true"
        page.get_by_role("textbox", name=re.compile("^pattern")).fill("kind")
        pattern.wait_for(state="hidden")
        assert name.is_visible() is False
        page.get_by_role("textbox", name="Name", exact=True).fill("")
        page.keyboard.press("Tab")
        name.wait_for(state="visible")
        assert watch.scan() == []


def test_what_is_wrong_with_new_settings_is_told_once_they_are_left(shown: Shown, browser: "Browser") -> None:
    """An evaluator that needs one of several settings says so beside them, and not before one of them was left."""
    with a_page(browser, shown.origin) as watch:
        page = watch.page
        watch.open("/rules/new")
        page.get_by_role("textbox", name="Name", exact=True).fill("policy")
        page.select_option("[name=evaluator]", "tool_policy")
        settings, counted = page.locator("[id='wrong-config']"), page.locator("#problems .counted")
        until(settings.text_content, lambda text: "needs required, forbidden, or an order" in str(text))
        assert (settings.is_visible(), counted.is_visible()) == (False, False)
        page.get_by_role("textbox", name=re.compile("^required")).focus()
        page.keyboard.press("Tab")
        settings.wait_for(state="visible")


def test_days_are_told_while_somebody_types(shown: Shown, browser: "Browser") -> None:
    """The number of evaluations is there without a button, and the rule's page shows the run."""
    with a_page(browser, shown.origin, viewport=PHONE) as watch:
        page = watch.page
        watch.open("/rules/new")
        page.get_by_role("textbox", name="Name", exact=True).fill("typed days")
        page.get_by_label("Also evaluate the last").fill("2")
        page.wait_for_selector("#also:has-text('evaluations, without judge calls')")
        assert (watch.scan(), watch.sideways()) == ([], 0)
        page.get_by_role("button", name="Save").click()
        page.wait_for_url("**/rules/*#backfills")
        page.wait_for_selector("#runs .badge:has-text('done')")


def test_results_show_what_was_asked(shown: Shown, visit: Visit) -> None:
    """A result is found by the question of its trace, and its rule by its conditions, not by an id alone."""
    fields = {"evaluator": "length", "config.maximumOutputLength": "4000", "also_days": "30"}
    send(visit, "/rules/new", do="save", name="asked", project="sample", **(MODELS | fields))
    rule_id = rules(shown)["asked"]["id"]
    until(lambda: visit.get(f"/rules/{rule_id}").text, lambda text: "The output has" in text)
    select = f"""
        SELECT DISTINCT t.input FROM evaluations AS e JOIN traces AS t USING (trace_id)
        WHERE e.rule_id = '{rule_id}' AND t.input IS NOT NULL
    """
    prompts = shown.running.store.queries.sql(select, max_rows=100, timeout_s=10).rows
    assert prompts
    for path in (f"/rules/{rule_id}", f"/quality/results?rule={rule_id}&project=sample"):
        page = unescape(visit.get(path).text)
        assert KINDS["length"].checks in page
        beginnings = [" ".join(str(text).split())[:60] for (text,) in prompts]
        assert [text for text in beginnings if text not in page] == []
