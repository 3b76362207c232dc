"""Text typed on a page is stored or still there: no other field, and no part that is exchanged, drops it."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import Watch, a_page
from tests.paging import Shown, Visit, a_dataset, a_review, a_shown_server, asking, connection_id
from tests.storing import rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, Route

TYPED = "Within 14 days, by parcel"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample."""
    with a_shown_server(tmp_path_factory.mktemp("typed") / "data") as server:
        yield server


def test_what_is_typed_as_right_is_expected(shown: Shown, browser: "Browser") -> None:
    """Typing in the box of the right answer chooses it, and the item of the dataset expects it."""
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/traces/{shown.trace_id}/promote")
        assert watch.page.get_by_label("Not known yet").is_checked()
        watch.page.get_by_label("Expected output", exact=True).fill(TYPED)
        assert watch.page.get_by_label("Enter it:").is_checked()
        watch.page.get_by_label("Name of the new dataset").fill("corrected")
        watch.page.get_by_role("button", name="Add as a new version").click()
        watch.page.wait_for_url("**/datasets/**")
    with asking(shown) as api:
        (item,) = api.ask("GET", "datasets/corrected/versions/1/items")["content"]
        assert item["expectedOutputs"]["output"] == TYPED


def queue_path(shown: Shown) -> str:
    """Return the address of a queue of reviews."""
    return a_review(shown).partition("/entries")[0]


def form_cases(shown: Shown) -> dict[str, tuple[str, dict[str, str], str]]:
    """Return forms in which one field overrides another: the page, the fields, and the expected response."""
    queue = {"name": "new", "question": "tone", "answer": "label", "labels": "A\nB", "reviewers": "1"}
    return {
        "expectation": (
            f"/traces/{shown.trace_id}/promote",
            {"expectation": "none", "expected": TYPED, "name": "never"},
            "choose “Enter it”",
        ),
        "scores": ("/review/new", {**queue, "low": "1"}, "choose “a score”"),
        "margin": ("/review/new", {**queue, "margin-1": "0.25"}, "row 2 of the rules: choose a rule"),
        "entries": (f"{queue_path(shown)}/add", {"run": "r" * 8, "targets": shown.trace_id}, "not both"),
        "signing": (
            "/webhooks/new",
            {"project": "*", "url": "https://a.example/b", "template": "unsigned", "secret": "hush"},
            "choose signed JSON",
        ),
        "model": (
            "/playground",
            {"do": "price", "role.0": "user", "text.0": "Hi", "connection.0": connection_id(shown), "model.1": "other"},
            "Choose a connection for",
        ),
    }


@pytest.mark.parametrize("case", ["expectation", "scores", "margin", "entries", "signing", "model"])
def test_a_field_that_would_not_count_is_named(shown: Shown, case: str) -> None:
    """A form does not drop a field that another one makes irrelevant: it names the field, and keeps all values."""
    path, fields, problem = form_cases(shown)[case]
    with Visit(shown.origin) as visit:
        answer = visit.send(path, path, **fields)
    assert problem in answer.text
    held = {name: text for name, text in fields.items() if name not in {"secret", "do", "expectation", "answer"}}
    assert {name: text for name, text in held.items() if text.partition("\n")[0] not in answer.text} == {}


def test_a_share_that_is_no_number_is_refused(shown: Shown) -> None:
    """An incomplete row of the rules that fill a queue is not ignored: the message names the error."""
    with Visit(shown.origin) as visit:
        rule = re.search(r'<select name="rule-0".*?<option value="(\w[^"]*)"', visit.get("/review/new").text, re.DOTALL)
        fields = {"name": "half", "question": "verdict", "answer": "label", "labels": "A\nB", "reviewers": "1"}
        fields |= {"rule-0": rule[1] if rule else "", "policy-0": "failing", "share-0": "half"}
        answer = visit.send("/review/new", "/review/new", **fields)
    assert (answer.status_code, "feeds: " in answer.text, 'value="half"' in answer.text) == (400, True, True)


def settings(page: "Page", evaluator: str) -> None:
    """Choose an evaluator, and wait for its settings."""
    page.locator("select[name=evaluator]").select_option(evaluator)
    page.wait_for_selector(f'#settings[data-of="{evaluator}"]')


def test_settings_of_an_evaluator_come_back_with_it(shown: Shown, browser: "Browser") -> None:
    """Typed settings are restored after a switch to another evaluator and back, and are not sent to the other."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/rules/new")
        settings(watch.page, "llm_judge")
        watch.page.locator('[name="config.criteria"]').fill(TYPED)
        settings(watch.page, "length")
        settings(watch.page, "regex")
        assert watch.page.locator('[name="config.criteria"]').count() == 0
        settings(watch.page, "llm_judge")
        assert watch.page.locator('[name="config.criteria"]').input_value() == TYPED
        settings(watch.page, "length")
        watch.page.locator("[name=name]").fill("not too long")
        watch.page.locator('[name="config.maximumOutputLength"]').fill("400")
        watch.page.get_by_role("button", name="Save").click()
        watch.page.wait_for_url(re.compile("/rules/(?!new)"))
    stored = rows(shown.running.store, "SELECT text FROM rule WHERE name = 'not too long'")
    assert [TYPED in str(text) for (text,) in stored] == [False]


RULE = "{}name: short{}\ntarget: SPAN\nevaluator: regex\nconfig:\n  pattern: |-{}\n    # a heading\n"


@pytest.mark.parametrize(
    "comments",
    [("", "", ""), ("# Why: the shop asked for it\n", "", ""), ("", "  # of words", ""), ("", "", " # a pattern")],
)
def test_a_form_does_not_take_comments_away(shown: Shown, comments: tuple[str, str, str]) -> None:
    """YAML with comments stays YAML until they are removed; lines of a text that begin with `#` are not comments."""
    is_kept = any(comments)
    with Visit(shown.origin) as visit:
        fields = {"as": "text", "do": "as_form", "text": RULE.format(*comments)}
        answer = visit.send("/rules/new", "/rules/new", **fields)
    assert ('name="text"' in answer.text, "does not keep comments" in answer.text) == (is_kept, is_kept)


def open_vote(watch: Watch, shown: Shown) -> None:
    """Open a trace on its root, with something typed in the form of a vote on that span."""
    watch.open(f"/traces/{shown.trace_id}")
    watch.page.wait_for_selector("#tree[data-drawn]")
    choose(watch, 0)
    watch.page.locator("#votes [name=about]").select_option("span")
    watch.page.locator("#votes [name=note]").fill("too late")
    watch.page.locator("#votes [name=expected]").fill(TYPED)


def choose(watch: Watch, row: int) -> str:
    """Choose the span of a row, and wait until it is shown; its name."""
    link = watch.page.locator("#tree [data-open]").nth(row)
    name = link.locator("bdi").text_content() or ""
    link.click()
    watch.page.locator("#span .span-name", has_text=name).wait_for()
    return name


def test_a_vote_outlasts_a_look_at_another_span(shown: Shown, browser: "Browser") -> None:
    """Typed text stays with the span that it is about and is stored for it; *Clear* begins with the chosen one."""
    with a_page(browser, shown.origin) as watch:
        open_vote(watch, shown)
        root = (watch.page.locator("#span .span-name").text_content() or "").strip()
        other = choose(watch, 2)
        note, about = watch.page.locator("#votes [name=note]"), watch.page.locator("#votes [name=about]")
        assert (note.input_value(), watch.page.locator("#votes [name=expected]").input_value()) == ("too late", TYPED)
        assert root in (about.locator("option:checked").text_content() or "")
        watch.page.get_by_role("button", name="Clear").click()
        assert (note.input_value(), other in (about.locator("option").last.text_content() or "")) == ("", True)
        open_vote(watch, shown)
        choose(watch, 2)
        watch.page.get_by_role("button", name="Incorrect").click()
        watch.page.get_by_role("status").filter(has_text="Stored: incorrect, the span").wait_for()
    stored = "SELECT span_id, note FROM annotations WHERE note = 'too late'"
    outline = shown.running.context.store.outlines.of_trace(shown.trace_id, tenant=None, max_spans=100)
    assert outline is not None
    (root_id,) = [span.span_id for span in outline.spans if span.parent_span_id is None]
    assert rows(shown.running.store, stored) == [(root_id, "too late")]


def test_a_vote_outlasts_a_server_that_is_away(shown: Shown, browser: "Browser") -> None:
    """The page says so and tries again, in place of leaving to an error of the browser."""
    with a_page(browser, shown.origin) as watch:
        open_vote(watch, shown)
        watch.page.route("**/*part=span*", lambda route: route.abort())
        watch.page.locator("#tree [data-open]").nth(2).click()
        strip = watch.page.get_by_role("alert").filter(has_text=re.compile(r"Disconnected since \d\d:\d\d\."))
        strip.wait_for()
        assert watch.page.locator("#votes [name=note]").input_value() == "too late"
        watch.page.unroute("**/*part=span*")
        strip.get_by_role("button", name="Try again").click()
        strip.wait_for(state="detached")
        assert watch.page.locator("#votes [name=note]").input_value() == "too late"
        watch.problems.clear()  # the browser reports the failed requests


_FORM = '<form method="post" action="/x"><input name="note"><select name="s"><option>a<option>b</select></form>'


def with_a_form(route: "Route") -> None:
    """Answer with the page as it is, and a form in the part that renews itself each second."""
    answer = route.fetch()
    text = answer.text().replace('data-every="5">', f'data-every="1">{_FORM}', 1)
    route.fulfill(response=answer, body=text)


def test_a_part_that_renews_itself_keeps_what_is_typed(shown: Shown, browser: "Browser") -> None:
    """Text, choice and focus of a form outlast that the part around it is exchanged."""
    with a_page(browser, shown.origin) as watch:
        watch.page.route("**/status", with_a_form)
        watch.open("/status")
        watch.page.locator("#status [name=s]").select_option("b")
        watch.page.locator("#status [name=note]").fill("half a sen")
        watch.page.evaluate("document.querySelector('#status').firstElementChild.nextElementSibling.dataset.old = '1'")
        watch.page.wait_for_selector("[data-old]", state="detached")
        watch.page.keyboard.type("tence")
        assert watch.page.locator("#status [name=note]").input_value() == "half a sentence"
        assert watch.page.locator("#status [name=s]").input_value() == "b"


def test_the_link_that_is_copied_leads_to_the_chosen_span(shown: Shown, browser: "Browser") -> None:
    """*Copy link* copies what the page shows by now, and says so only if the browser took it."""
    with a_page(browser, shown.origin, permissions=["clipboard-read", "clipboard-write"]) as watch:
        watch.open(f"/traces/{shown.trace_id}")
        watch.page.wait_for_selector("#tree[data-drawn]")
        choose(watch, 2)
        watch.page.get_by_text("More", exact=True).click()
        watch.page.get_by_role("button", name="Copy link").click()
        watch.page.get_by_role("button", name="Copied").wait_for()
        copied = watch.page.evaluate("navigator.clipboard.readText()")
        assert (copied, "span=" in copied) == (watch.page.url, True)
        watch.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        watch.page.evaluate("document.execCommand = () => false")
        watch.page.get_by_role("button", name="Copy link").click()
        watch.page.get_by_role("button", name="Not copied").wait_for()


def test_a_part_that_is_not_renewed_says_so(shown: Shown, browser: "Browser") -> None:
    """While the server is unavailable, the page shows since when it is stale, and no longer once the server is back."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?live=1")
        watch.page.route("**/traces?live=1", lambda route: route.abort())
        notice = watch.page.get_by_text("Disconnected since")
        notice.wait_for()
        with watch.page.expect_event("requestfailed"):
            pass  # once more
        assert notice.count() == 1
        watch.page.unroute("**/traces?live=1")
        notice.wait_for(state="detached")
        watch.problems.clear()  # the browser reports the failed requests


def test_buttons_that_do_not_send_what_is_typed_ask(shown: Shown, browser: "Browser") -> None:
    """Leaving an entry of a review out, or taking a vote back, drops a note only if one says so."""
    questions: list[str] = []

    def refuse(dialog: "Dialog") -> None:
        questions.append(dialog.message)
        dialog.dismiss()

    a_dataset(shown)
    with a_page(browser, shown.origin) as watch:
        watch.page.on("dialog", refuse)
        watch.open(a_review(shown))
        for button in ("Undo the last vote", "Skip"):
            control = watch.page.get_by_role("button", name=button)
            if control.count():
                watch.page.locator("[name=note]").fill(TYPED)
                control.click()
                assert watch.page.locator("[name=note]").input_value() == TYPED
                watch.page.locator("[name=note]").fill("")  # else the browser asks whether to leave the page
        open_vote(watch, shown)
        watch.page.get_by_role("button", name="Remove my vote").click()
        assert watch.page.locator("#votes [name=note]").input_value() == "too late"
    assert len(questions) >= 2
    assert set(questions) == {"This discards your input. Continue?"}
