"""Two runs side by side on a page: the gate's verdict, flips first, what differs marked, and nothing that runs."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.web.offline.marked import MOST_TOKENS, differing, marked
from tests.browser import a_page
from tests.offline import Offline
from tests.paging import Shown, Visit, a_shown_server, asking
from tests.test_run_diff import AFTER, BEFORE, Scores, stored

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("offline")

HOSTILE = (
    "<script>document.title='owned'</script><img src=https://evil.example/x onerror=alert(1)>\u202evil</pre></del>"
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all; each test has an experiment of its own."""
    with a_shown_server(tmp_path_factory.mktemp("diff") / "data") as server:
        yield server


@pytest.fixture(name="api")
def its_api(shown: Shown) -> Iterator[Offline]:
    """Yield its API."""
    with asking(shown) as api:
        yield api


@pytest.fixture(name="visit")
def a_visitor(shown: Shown) -> Iterator[Visit]:
    """Visit the pages."""
    with Visit(shown.origin) as visit:
        yield visit


def listed_on(page: str) -> list[tuple[str, str]]:
    """Return the items that a page lists, with how they moved."""
    rows = re.findall(r"<tr data-row.*?</tr>", page, re.DOTALL)
    return [
        (re.findall(r"<bdi>([^<]*)</bdi>", row)[0], re.findall(r'<span class="badge \w*">(\w+)</span>', row)[0])
        for row in rows
    ]


def test_the_page_says_what_the_gate_says(visit: Visit, api: Offline) -> None:
    """The verdict, the rates and the counts on top are those of the gate, and flips are listed first."""
    before, after = stored(api, "page", BEFORE), stored(api, "page", AFTER)
    page = visit.get(f"/runs/{after}/diff").text
    experiment = api.ask("GET", f"runs/{after}")["experimentId"]
    verdict = api.ask("POST", f"experiments/{experiment}/gate", json={"candidateRunId": after})
    assert (verdict["baselineRunId"], verdict["verdict"]) == (before, "inconclusive")
    (sentence,) = re.findall(r'id="verdict"><strong>([^<]*)</strong> <span>([^<]*)</span>', page)
    rates = f"{100 * verdict['baselinePassRate']:.1f} % → {100 * verdict['candidatePassRate']:.1f} %"
    assert sentence == ("Inconclusive", f"{rates}; 2 items worse, 2 better, 1 the same, 1 not scored in both.")
    assert [key for key, _ in listed_on(page)] == ["broke", "mended", "lost", "won", "mute", "same", "new", "gone"]
    for text in verdict["warnings"]:
        assert text.partition(":")[0] in page


@pytest.mark.parametrize(
    "show, items",
    [
        ("worse", [("broke", "worse"), ("lost", "worse")]),
        ("better", [("mended", "better"), ("won", "better")]),
        ("added", [("new", "added")]),
        ("removed", [("gone", "removed")]),
    ],
)
def test_a_filter_lists_what_it_names(visit: Visit, api: Offline, show: str, items: list[tuple[str, str]]) -> None:
    """Only items that moved so are listed, and the first of them is shown whole."""
    before, after = stored(api, f"shows {show}", BEFORE), stored(api, f"shows {show}", AFTER)
    page = visit.get(f"/runs/{after}/diff?baseline={before}&show={show}").text
    assert listed_on(page) == items
    assert re.findall(r'<h2 class="span-name"><bdi>(\w+)', page) == [items[0][0]]


def test_long_lists_have_pages(visit: Visit, api: Offline) -> None:
    """Every item is listed once over all pages."""
    scores: Scores = {f"case {at:03}": [1.0] for at in range(120)}
    stored(api, "long", scores)
    after = stored(api, "long", scores | {"case 077": [0.0]})
    pages = [listed_on(visit.get(f"/runs/{after}/diff?page={number}").text) for number in range(3)]
    assert [len(each) for each in pages] == [50, 50, 20]
    assert pages[0][0] == ("case 077", "worse")
    assert sorted(key for page in pages for key, _ in page) == sorted(scores)


def test_what_cannot_be_compared_is_said(visit: Visit, api: Offline) -> None:
    """Without a baseline, with one that goes on, and with another evaluator, the page says so and offers others."""
    first = stored(api, "alone", {"a": [1.0]})
    assert "No baseline" in visit.get(f"/runs/{first}/diff").text
    going_on = stored(api, "alone", {"a": [1.0]}, end="RUNNING")
    answer = visit.get(f"/runs/{first}/diff?baseline={going_on}")
    assert (answer.status_code, "only runs with SUCCESS or FAILED" in answer.text) == (409, True)
    other = stored(api, "alone", {"a": [1.0]}, fingerprint="f2")
    answer = visit.get(f"/runs/{other}/diff")
    assert (answer.status_code, "is another one" in answer.text) == (409, True)
    assert f'<option value="{first}"' in answer.text
    elsewhere = stored(api, "elsewhere", {"a": [1.0]})
    assert visit.get(f"/runs/{first}/diff?baseline={elsewhere}").status_code == 404


def test_two_runs_are_selected_and_compared(shown: Shown, api: Offline, browser: "Browser") -> None:
    """Two selected runs of an experiment open side by side, the newer one against the older; runs show their model."""
    run = ""
    for branch, score in (("main", 1.0), ("prompt", 0.0)):
        run = api.begin(
            experimentName="picked", name=f"run {branch}", gitBranch=branch, metadata={"model": f"m {branch}"}
        )
        api.report(run, {"itemKey": "a", "evalResults": [{"name": "exact", "score": score, "threshold": 0.5}]})
        api.end(run)
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/experiments/{experiment}")
        assert watch.page.get_by_text("model: m prompt").is_visible()
        watch.page.get_by_label("Compare run prompt").check()
        watch.page.get_by_role("button", name="Compare two selected runs").click()
        assert watch.page.get_by_role("alert").inner_text() == "Select two runs."
        assert watch.scan() == []
        watch.page.get_by_label("Compare run main").check()
        watch.page.get_by_role("button", name="Compare two selected runs").click()
        watch.page.get_by_role("heading", name="against run main").wait_for()
        assert watch.page.url.startswith(f"{shown.origin}/runs/{run}/diff?")


def test_a_run_of_another_branch_is_compared_with_a_warning(visit: Visit, api: Offline) -> None:
    """If no run has the same dataset and branch, the page compares with the latest other run, and says so."""
    before = stored(api, "branches", BEFORE)
    after = api.begin(experimentName="branches", gitBranch="prompt")
    api.report(after, {"itemKey": "a", "evalResults": [{"name": "exact", "score": 0.0, "threshold": 0.5}]})
    api.end(after)
    page = visit.get(f"/runs/{after}/diff").text
    assert "No earlier successful run has the same dataset and branch" in page
    assert f'<option value="{before}" selected>' in page


def test_slices_and_several_trials_are_told(visit: Visit, api: Offline) -> None:
    """Metadata with few values can be used for slices, and pass@k is shown for several trials."""
    runs = []
    for score in (1.0, 0.0):
        run = api.begin(experimentName="sliced")
        score_fields = {"name": "exact", "threshold": 0.5, "fingerprint": "f1"}
        items = [
            {"itemKey": key, "trial": trial, "metadata": {"topic": topic, "id": key}}
            | {"evalResults": [score_fields | {"score": score if trial == 1 else 1.0}]}
            for key, topic in (("a", "sums"), ("b", "sums"), ("c", "words"))
            for trial in (1, 2)
        ]
        api.report(run, *items)
        api.end(run)
        runs.append(run)
    page = visit.get(f"/runs/{runs[1]}/diff?slices=topic").text
    assert re.findall(r'<option value="(\w+)"[^>]*>(?:id|topic)</option>', page) == ["topic"]
    assert ("topic = sums" in page, "topic = words" in page) == (True, True)
    text = re.sub(r"<[^>]+>|\s+", " ", page)
    assert re.search(r"k = 2 +3 +100.0 % +→ +100.0 % +100.0 % +→ +0.0 %", text)


def test_hostile_texts_do_nothing_and_differences_are_marked(shown: Shown, api: Offline, browser: "Browser") -> None:
    """Removed and added words are marked, and HTML in keys, texts and names is shown as text."""
    runs = []
    for word, score in (("sixty", 1.0), ("ninety", 0.0)):
        run = api.begin(experimentName=f"e{HOSTILE}", name=f"{word}{HOSTILE}")
        score_fields = {"name": f"v{HOSTILE}"[:100], "score": score, "threshold": 0.5, "fingerprint": "f1"}
        output = {"output": f"Within {word} days {HOSTILE} <b>{word}</b>"}
        item = {"itemKey": f"k{HOSTILE}"[:100], "inputs": {"input": HOSTILE}, "metadata": {HOSTILE[:40]: word}}
        api.report(run, item | {"actualOutputs": output, "error": None, "evalResults": [score_fields]})
        api.end(run)
        runs.append(run)
    with a_page(browser, shown.origin, viewport={"width": 390, "height": 844}) as watch:
        watch.open(f"/runs/{runs[1]}/diff")
        page = watch.page
        assert page.locator("#outputs del").all_inner_texts() == ["sixty ", "sixty"]
        assert page.locator("#outputs ins").all_inner_texts() == ["ninety ", "ninety"]
        assert "<script>document.title='owned'</script>" in page.locator("#outputs pre").first.inner_text()
        assert page.locator("main script, main img, main b").count() == 0
        assert watch.sideways() <= 0
        page.locator("dl.tiles a", has_text="1").nth(1).click()
        page.wait_for_url("**show=worse**")
        assert page.locator("tr[data-row]").count() == 1


@settings(deadline=None, max_examples=150)
@given(
    before=st.text(st.sampled_from("ab c\n.漢字<"), max_size=60),
    after=st.text(st.sampled_from("ab c\n.漢字<"), max_size=60),
)
def test_pieces_make_both_texts_again(before: str, after: str) -> None:
    """The pieces of a text join to it, and the pieces marked as common are equal, in the same order."""
    one, other = differing(before, after)
    assert ("".join(text for _, text in one), "".join(text for _, text in other)) == (before, after)
    assert "".join(t for same, t in one if same) == "".join(t for same, t in other if same)


def test_long_texts_are_matched_by_lines() -> None:
    """Texts of too many words that differ are matched line by line."""
    lines = [f"line {at} says this" for at in range(MOST_TOKENS - 50)]
    one, other = differing("\n".join(["x", *lines, "y"]), "\n".join(["z", *lines[:70], "new", *lines[70:], "w"]))
    assert [text for same, text in one if not same] == ["x\n", "y"]
    assert [text for same, text in other if not same] == ["z\n", "new\n", "w"]


def test_what_is_cut_is_said() -> None:
    """A long text is cut, with a link to the rest below it."""
    shown, _ = marked("word " * 5_000, "other", ("/whole?a=1&b=2", "/x"))
    assert "19,000 more characters</a>" in shown
    assert 'href="/whole?a=1&amp;b=2"' in shown
