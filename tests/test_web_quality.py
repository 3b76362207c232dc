"""The pages about quality: numbers over a history of ten days, and the pages they link to."""

import datetime as dt
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.access import a_closed_server
from tests.browser import PHONE, a_page
from tests.live import until
from tests.paging import Visit
from tests.quality_history import FIRST, HOSTILE, PROJECT, SECOND, History, Judged, Rule, a_history
from tests.serving import a_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("alerts", "quality", "traces")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Start one server for all tests."""
    with a_history(tmp_path_factory.mktemp("quality") / "data") as history:
        yield history


@pytest.fixture(scope="module")
def visit(history: History) -> Iterator[Visit]:
    """Visit the pages as a viewer."""
    with Visit(history.origin) as visit:
        yield visit


def about(rule: Rule, **more: object) -> str:
    """Return the parameters that name a rule and its project."""
    return urlencode({"rule": rule.key.rule_id, "project": rule.key.project or ""} | more)


def words(page: str) -> str:
    """Return the text of a page without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def links(page: str, path: str) -> list[str]:
    """Return the addresses on a page that begin so."""
    return [unescape(each) for each in re.findall(r'href="([^"]+)"', page) if each.startswith(path)]


def test_every_rule_is_listed_with_its_latest_evaluator(history: History, visit: Visit) -> None:
    """A rule has its pass rate with an interval, its results by verdict, and its alert."""
    page = visit.get("/quality").text
    text = words(page)
    assert "polite answers release alert shop 82.1 % 73.4 to 89.0" in text
    assert f"/alerts/{history.alert_id}" in page
    assert "polite answers" not in words(visit.get(f"/quality?{urlencode({'project': HOSTILE})}").text)


def test_a_rule_shows_rates_of_one_evaluator_only(history: History, visit: Visit) -> None:
    """The numbers are those of the latest evaluator, and a choice shows those of the previous one."""
    latest = words(visit.get(f"/quality?{about(history.rule)}").text)
    assert "The evaluator changed in this period" in latest
    assert "Pass rate 82.1 %" in latest
    assert "1.5.0 12.5 %" in latest
    before = words(visit.get(f"/quality?{about(history.rule, fingerprint=FIRST)}").text)
    assert "Pass rate 95.0 %" in before
    assert "1.5.0 12.5 %" not in before


def test_failed_and_skipped_are_told_apart(history: History, visit: Visit) -> None:
    """Neither failed nor skipped is a score, each has a number of its own, and links to the results it counts."""
    page = visit.get(f"/quality?{about(history.rule)}").text
    assert "No verdict 3 the evaluator failed Skipped 2 not run" in words(page)
    for verdict, count in (("broken", 3), ("skipped", 2)):
        (link,) = {
            each for each in links(page, "/quality/results") if f"verdict={verdict}" in each and "release" not in each
        }
        assert visit.get(link).text.count("data-row") == count


def test_every_point_and_column_leads_to_as_many_results_as_it_says(history: History, visit: Visit) -> None:
    """The results behind a day or a range of scores are exactly the ones it counts."""
    page = visit.get(f"/quality?{about(history.rule)}").text
    checked = 0
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        addresses = links(row, "/quality/results")
        cells = [words(f"<main{cell}") for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        if not addresses or len(cells) not in {2, 5}:
            continue
        count = int(cells[1] if len(cells) == 2 else cells[3])
        shown, link = 0, addresses[0]
        while link:
            answer = visit.get(link).text
            shown += answer.count("data-row")
            link = (
                next(iter(links(answer.partition('class="pager"')[2], "/quality/results")), "")
                if "Older" in answer
                else ""
            )
        assert shown == count, addresses[0]
        checked += 1
    assert checked >= 20


def test_monitors_stand_beside_their_threshold(history: History, visit: Visit) -> None:
    """What the monitors compare and how much evidence there is are those of the API."""
    text = words(visit.get(f"/quality?{about(history.rule)}").text)
    documents = history.running.store.monitors.page(project=PROJECT, rule=history.rule.key.rule_id)
    assert len(documents) == 2
    assert re.search(r"1\.5\.0 : 10\.0 % of 30 \(.*against 1\.4\.1 : 92\.5 % of 120 .* the alert recovers at ", text)


def test_releases_are_compared_with_an_interval_and_a_test(history: History, visit: Visit) -> None:
    """The page shows the difference, its interval and p-value, and the worst results of both with their reasons."""
    page = visit.get(f"/quality/compare?{about(history.rule, baseline='1.4.1', candidate='1.5.0')}")
    text = words(page.text)
    assert "The pass rate of 1.5.0 is worse : \u221280.0 points" in text
    assert re.search("interval from \u22129[0-9.]+ to \u2212[0-9.]+; p < 0\\.0001", text)
    assert "permutation test, corrected for two measures" in text
    assert page.text.count("data-row") == 10
    assert "The worst of 1.5.0" in text


def test_what_does_not_differ_is_not_said_to(history: History, visit: Visit) -> None:
    """Two similar releases are reported as not clearly different."""
    text = words(visit.get(f"/quality/compare?{about(history.rule, baseline='1.4.0', candidate='1.4.1')}").text)
    assert "is not clearly different" in text
    assert "worse" not in text.partition("The worst")[0]


def test_releases_of_two_evaluators_are_not_compared(history: History, visit: Visit) -> None:
    """It is refused, and the page says why."""
    rule = Rule(history.running, "two evaluators", project="twice")
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    for release, fingerprint in (("1", FIRST), ("2", SECOND)):
        rule.come([Judged(score=0.5, at=now, release=release, fingerprint=fingerprint)] * 5)
    answer = visit.get(f"/quality/compare?{about(rule, baseline='1', candidate='2')}")
    message = f"judged by different evaluators, {FIRST[:8]} and {SECOND[:8]}: their scores are not comparable"
    assert (answer.status_code, message in words(answer.text)) == (409, True)
    answer = visit.get(
        f"/quality/compare?{about(history.rule, baseline='1.4.0', candidate='1.5.0', fingerprint=FIRST)}"
    )
    assert answer.status_code == 409
    assert f"evaluator {FIRST[:8]} did not judge both releases" in words(answer.text)


def test_releases_of_two_services_are_not_compared(history: History, visit: Visit) -> None:
    """Releases belong to a service: comparing those of two services is refused, and only those of one are offered."""
    rule = Rule(history.running, "two services", project="services")
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    for ago, service, release, score in (
        (4, "cart", "1.0", 0.9),
        (3, "search", "7", 0.2),
        (2, "cart", "1.1", 0.9),
        (1, "search", "1.0", 0.2),
    ):
        at = now - ago * dt.timedelta(hours=1)
        rule.come([Judged(score=score, at=at, release=release, service=service)] * 8)
    page = visit.get(f"/quality?{about(rule)}").text
    assert re.search(r"1\.0 search 0\.0 %.*1\.1 cart 100\.0 %.*7 search 0\.0 %.*1\.0 cart 100\.0 %", words(page))
    for link in links(page, "/quality/compare"):
        answer = visit.get(link)
        assert answer.is_success
        assert "of different services" not in words(answer.text)
    assert "baseline=7&candidate=1.0" in unescape(page)  # the latest, and the previous one of the same service
    refused = visit.get(f"/quality/compare?{about(rule, baseline='1.1', candidate='7')}")
    message = "the releases belong to different services, cart and search, which are never compared"
    assert (refused.status_code, message in words(refused.text)) == (409, True)
    for service, worse in (("cart", "not clearly different"), ("search", "not clearly different")):
        sides = {"baseline": "1.0", "candidate": "1.1" if service == "cart" else "7", "service": service}
        shown = visit.get(f"/quality/compare?{about(rule, **sides)}")
        assert (shown.status_code, worse in words(shown.text)) == (200, True)
        assert shown.text.count("data-row") == 10
    other = visit.get(f"/quality/compare?{about(rule, baseline='1.0', candidate='1.1', service='search')}")
    assert (other.status_code, "search has no scores of release 1.1" in words(other.text)) == (409, True)
    ((link),) = [each for each in links(page, "/quality/results") if "service=search" in each and "release=7" in each]
    assert visit.get(link).text.count("data-row") == 8


def test_a_monitor_and_the_table_below_it_count_the_same(history: History, visit: Visit) -> None:
    """Where more was judged than monitors count the page says so, and counts as they do when it is asked to."""
    rule = Rule(history.running, "counted alike", project="alike")
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    for ago, release in ((3, "1"), (2, "2")):
        at = now - ago * dt.timedelta(hours=1)
        rule.come([Judged(score=0.9 if number % 4 else 0.1, at=at, release=release) for number in range(40)])
        rule.come([Judged(score=0.9, at=at, release=release, occasion="backfill")] * 60)
    until(
        lambda: history.running.store.monitors.page(project="alike"),
        lambda streams: bool(streams) and '"results":80' in streams[0].state.replace(" ", ""),
    )
    every = words(visit.get(f"/quality?{about(rule)}").text)
    assert "Monitors count 80 of these 200 scores" in every
    page = visit.get(f"/quality?{about(rule, counted='1')}").text
    alike = words(page)
    assert "This page counts what monitors count" in alike
    (standing,) = re.findall(r" 2 ?: (\S+ %) of (\d+) \(.*?against 1 ?: (\S+ %) of (\d+) \(", alike)
    table = re.findall(r" ([12]) (\d+\.\d %) [^%]*? (\d+) 0 0 \$[\d.]+", alike)
    assert table == [("2", standing[0], standing[1]), ("1", standing[2], standing[3])]
    results = [each for each in links(page, "/quality/results") if "release=2" in each]
    assert visit.get(results[0]).text.count("data-row") == int(standing[1])


def test_quality_stands_at_the_time_of_the_trace(history: History, visit: Visit) -> None:
    """A backfill of today is of the days of its traces, unless the time of the judgement is asked for."""
    rule = Rule(history.running, "looked back", project="back")
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    rule.come(
        [
            Judged(score=0.9, at=now, started=now - days * dt.timedelta(days=1), occasion="backfill")
            for days in (2, 3, 4, 400)
        ]
    )

    of_traces = visit.get(f"/quality?{about(rule)}").text
    judged = visit.get(f"/quality?{about(rule, time='judged')}").text
    assert ("Results 3" in words(of_traces), "Results 4" in words(judged)) == (True, True)
    for page, points in ((of_traces, 3), (judged, 1)):
        addresses = {each for each in links(page, "/quality/results") if "from_us" in each}
        counts = [visit.get(link).text.count("data-row") for link in addresses]
        assert (len(addresses), sum(counts)) == (points, 3 if points == 3 else 4)
    overview = words(visit.get("/quality?project=back").text)
    assert "looked back back 100.0 %" in overview


def test_an_address_that_means_nothing_is_a_page_that_says_so(history: History, visit: Visit) -> None:
    """No such rule, no such time, no such verdict: an error as a page, never a fault."""
    assert visit.get("/quality?rule=nothing").status_code == 404
    for path in ("/quality?days=5", f"/quality?{about(history.rule, days=2)}"):
        assert visit.get(path).status_code == 400
    for wrong in ({"verdict": "good"}, {"low": "x"}, {"page": -1}, {"from_us": 1 << 60}):
        assert visit.get(f"/quality/results?{about(history.rule, **wrong)}").status_code in {400, 422}
    nothing = visit.get(f"/quality/compare?{about(history.rule, baseline='1.4.0', candidate='9')}")
    assert (nothing.status_code, "release 9 has no scores" in words(nothing.text)) == (409, True)


@pytest.mark.usefixtures("history")
def test_a_rule_is_found_by_its_name_and_without_its_project(visit: Visit) -> None:
    """An address that a person types works."""
    assert "Pass rate 82.1 %" in words(visit.get("/quality?rule=polite+answers").text)


def test_each_time_is_added_up_in_its_steps(history: History, visit: Visit) -> None:
    """Hours, days, weeks and months show the same results, as far as they reach back."""
    for days, steps in ((1, "hourly"), (7, "daily"), (90, "weekly"), (365, "monthly")):
        page = words(visit.get(f"/quality?{about(history.rule, days=days)}").text)
        assert steps in page
        assert ("Results 400 " in page) == (days > 7)


def test_results_can_be_paged_and_sorted(history: History, visit: Visit) -> None:
    """Pages follow each other without a gap, and the worst come first on request."""
    first = visit.get(f"/quality/results?{about(history.rule)}").text
    (older,) = links(first.partition('class="pager"')[2], "/quality/results")
    second = visit.get(older).text
    ids = [re.findall(r'href="/traces/([0-9a-f]{32})', page) for page in (first, second)]
    assert [len(each) for each in ids] == [50, 50]
    assert not set(ids[0]) & set(ids[1])
    worst = visit.get(f"/quality/results?{about(history.rule, order='worst', fingerprint=SECOND)}").text
    scores = [float(each) for each in re.findall(r'failed <span class="number">([0-9.]+)', worst)]
    assert scores == sorted(scores)
    assert len(scores) > 30


def test_the_operator_chooses_whose_quality_he_looks_at(tmp_path: Path, browser: "Browser") -> None:
    """Tenants that have results are offered to keys that see all, and links and forms stay with the chosen one."""
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    with a_closed_server(tmp_path / "data") as closed, Visit(f"http://{closed.running.http}") as visit:
        ours, theirs = (Rule(closed.running, name, project=name) for name in ("ours", "theirs"))
        ours.come([Judged(score=0.9, at=now)] * 3)
        theirs.come([Judged(score=score, at=now, tenant="acme", release=each) for each in "12" for score in (0.2, 0.8)])
        with Visit(visit.origin) as acme:
            acme.send("/sign-in", "/sign-in", key=closed.keys["viewer of acme"])
            page = acme.get("/quality").text
            assert ('name="tenant"' in page, "theirs" in words(page), "of tenant" in words(page)) == (
                False,
                True,
                False,
            )
        visit.send("/sign-in", "/sign-in", key=closed.keys["viewer"])
        page = visit.get("/quality").text
        offered = page.partition('name="tenant"')[2].partition("</select>")[0]
        assert re.findall(r'<option[^>]* value="([^"]*)">', offered) == ["", "acme"]
        assert ("ours" in words(page), "theirs 50.0 %" in words(page)) == (True, False)
        assert visit.get("/quality?tenant=&project=").is_success
        with a_page(browser, visit.origin, viewport=PHONE, java_script_enabled=False) as watch:
            watch.open("/sign-in")
            watch.page.fill("[name=key]", closed.keys["viewer"])
            watch.page.get_by_role("button", name="Sign in").click()
            watch.open("/quality?days=7")
            watch.page.select_option("[name=tenant]", "acme")
            watch.page.get_by_role("button", name="Show").click()
            watch.page.wait_for_url("**tenant=acme**")
            assert watch.sideways() <= 0
            watch.page.get_by_role("link", name="theirs").click()
            watch.page.wait_for_url("**/quality?rule=**")
            assert "in theirs of tenant acme" in watch.page.locator("h1").inner_text()
            watch.page.get_by_role("link", name="Up, to quality").click()
            watch.page.wait_for_url("**/quality?days=7&tenant=acme")
            watch.open(f"/quality/compare?{about(theirs, tenant='acme')}")
            watch.page.get_by_role("button", name="Compare").click()
            watch.page.wait_for_url("**baseline=**")
            assert "tenant=acme" in watch.page.url
        for options in ({}, {"color_scheme": "dark", "viewport": PHONE}):
            with a_page(browser, visit.origin, extra_http_headers=bearer(closed.keys["viewer"]), **options) as watch:
                watch.open("/quality?tenant=acme")
                assert (watch.scan(), watch.sideways() <= 0) == ([], True)


def bearer(key: str) -> dict[str, str]:
    """Return the headers with a key."""
    return {"authorization": f"Bearer {key}"}


def test_an_empty_server_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    """If nothing is judged, the pages link to the rules."""
    with a_server(tmp_path_factory.mktemp("empty") / "data") as running, Visit(f"http://{running.http}") as visit:
        assert "No rules yet" in visit.get("/quality").text
        assert "No alerts so far" in visit.get("/alerts").text
        assert 'href="/rules"' in visit.get("/quality").text
        assert visit.get("/quality/results").headers["location"] == "/quality"


def test_hostile_names_are_text_on_every_page(history: History, visit: Visit, browser: "Browser") -> None:
    """Rules, projects, releases and reasons may be called anything: nothing runs, and nothing is hidden."""
    pair = {"baseline": HOSTILE, "candidate": HOSTILE + "2"}
    paths = [
        f"/quality?{about(history.hostile)}",
        f"/quality/compare?{about(history.hostile, **pair)}",
        f"/quality/results?{about(history.hostile, release=HOSTILE)}",
    ]
    for path in paths:
        answer = visit.get(path)
        assert answer.is_success
        assert "<script>alert" not in answer.text
        assert "\x1b" not in re.sub(r'value="[^"]*"', "", answer.text)
        assert "{{7*7}}" in answer.text
    with a_page(browser, history.origin, viewport=PHONE) as watch:
        for path in paths:
            watch.open(path)
            assert watch.sideways() <= 0
            assert watch.scan() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_full_pages_are_sound(history: History, browser: "Browser", scheme: str) -> None:
    """With pictures, tables and marks in them, the pages are accessible."""
    with a_page(browser, history.origin, color_scheme=scheme) as watch:
        for path in ("", "/compare", "/results"):
            watch.open(f"/quality{path}?{about(history.rule, baseline='1.4.1', candidate='1.5.0')}")
            assert watch.scan() == []
            assert watch.sideways() <= 0


def test_a_person_gets_from_a_point_to_its_traces_with_the_keyboard(history: History, browser: "Browser") -> None:
    """Points of a chart take the focus, Enter opens the results behind one, and j and Enter open a trace."""
    with a_page(browser, history.origin) as watch:
        watch.open(f"/quality?{about(history.rule)}")
        point = watch.page.locator("figure svg a").first
        point.focus()
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url("**/quality/results**")
        watch.page.keyboard.press("j")
        assert watch.page.locator("tr.chosen a[data-open]").get_attribute("href", timeout=5_000).startswith("/traces/")  # type: ignore[union-attr] # it has one
