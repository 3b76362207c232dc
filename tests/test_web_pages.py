"""Every page of the web interface in a real browser: made from its own routes, so that no new one is forgotten."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from tests.browser import DESK, PHONE, Watch, a_page
from tests.paging import EXAMPLES, Shown, Visit, a_shown_server, path_of, templates

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

PAGES = templates()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Start one server for all tests."""
    with a_shown_server(tmp_path_factory.mktemp("pages") / "data") as server:
        yield server


def test_each_page_has_an_address_to_look_at() -> None:
    """Every page with a parameter in its path has an example address in tests/paging.py."""
    assert {template for template in PAGES if "{" in template} == set(EXAMPLES)


@pytest.fixture(scope="module")
def watch(shown: Shown, browser: "Browser") -> Iterator[Watch]:
    """Yield a tab: one for all pages, since a new one takes as much as to draw a page."""
    still = {"reduced_motion": "reduce"}  # else colours that change are drawn half-way for a moment
    with a_page(browser, shown.origin, has_touch=True, **still) as one:
        yield one


@pytest.mark.parametrize("template", PAGES)
def test_a_page_is_sound(shown: Shown, watch: Watch, template: str) -> None:
    """Nothing goes wrong on a page, it is accessible, and it is no wider than the window."""
    watch.problems.clear()
    watch.page.context.clear_cookies()
    look_like(watch, PHONE, "dark")
    watch.open(path_of(template, shown))
    assert watch.page.evaluate(_LISTS_TO_SCROLL) == []  # a row of a list is a block, without scrolling
    check_look(watch, is_dark=True)
    look_like(watch, DESK, "light")
    check_look(watch, is_dark=False)
    assert watch.problems == []


def look_like(watch: Watch, window: "ViewportSize", scheme: Literal["dark", "light"]) -> None:
    """Give a page a window and colours, as if it had been opened so: no script asks for them but to follow a change."""
    watch.page.set_viewport_size(window)
    watch.page.emulate_media(color_scheme=scheme)


def check_look(watch: Watch, *, is_dark: bool) -> None:
    """Compare the rendered page with the claims about it."""
    assert watch.scan() == []
    assert watch.sideways() <= 0
    ground = watch.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, ground.removeprefix("rgb(").rstrip(")").split(","))) < 3 * 128) == is_dark


_LISTS_TO_SCROLL = """() => [...document.querySelectorAll("table.stacked")]
    .filter((list) => list.scrollWidth > list.closest(".table").clientWidth + 1)
    .map((list) => list.closest(".table").ariaLabel)"""


@pytest.mark.costly("collector/api/base", "collector/web")
@pytest.mark.parametrize("template", PAGES)
def test_a_page_reads_without_scripts(shown: Shown, template: str) -> None:
    """What a page shows is in what the server sends, without a style or a script of its own in it."""
    with Visit(shown.origin) as visit:
        answer = visit.get(path_of(template, shown))
    assert answer.is_success or answer.next_request
    assert " style=" not in answer.text
    assert answer.text.count("<script") == answer.text.count('<script type="module" src="/static/')
    policy = answer.headers.get("content-security-policy", "")
    assert answer.next_request or "default-src 'none'; script-src 'self'; style-src 'self';" in policy


def test_the_menu_leads_to_pages(shown: Shown) -> None:
    """Every line of the menu is a page that opens."""
    with Visit(shown.origin) as visit:
        text = visit.get("/traces").text.partition('aria-label="Main"')[2].partition("</nav>")[0]
        paths = [piece.partition('"')[0] for piece in text.split('<a href="')[1:]]
        assert paths
        assert [path for path in paths if not visit.get(path).is_success] == []


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_the_menu_opens_on_a_phone(shown: Shown, browser: "Browser", *, has_scripts: bool) -> None:
    """A button opens it, a key puts it away, and its pages are found there; on a wide screen it is always there."""
    with a_page(browser, shown.origin, viewport=PHONE, has_touch=True, java_script_enabled=has_scripts) as watch:
        watch.open("/traces")
        menu = watch.page.get_by_role("navigation", name="Main")
        link = menu.get_by_role("link", name="Datasets")
        button = watch.page.get_by_role("button", name="Menu")
        assert (link.is_visible(), watch.sideways() <= 0) == (False, True)
        button.tap()
        link.wait_for()
        assert (watch.scan() if has_scripts else []) == []
        watch.page.keyboard.press("Escape")
        link.wait_for(state="hidden")
        button.tap()
        link.tap()
        watch.page.wait_for_url("**/datasets")
    with a_page(browser, shown.origin, java_script_enabled=has_scripts) as watch:
        watch.open("/traces")
        assert watch.page.get_by_role("link", name="Datasets").is_visible()
        assert not watch.page.get_by_role("button", name="Menu").is_visible()


def test_keys_move_through_a_list(shown: Shown, browser: "Browser") -> None:
    """In a list j goes on, k back, Enter opens, u leads up again, ? shows what keys do, and Escape puts that away."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        watch.page.keyboard.press("?")
        watch.page.wait_for_selector("#help[open]")
        watch.page.keyboard.press("Escape")
        watch.page.wait_for_selector("#help:not([open])", state="hidden")
        for key in ("j", "j", "k"):
            watch.page.keyboard.press(key)
        chosen = watch.page.eval_on_selector_all(
            "[data-row]", "rows => rows.map(row => row.classList.contains('chosen'))"
        )
        assert [number for number, is_chosen in enumerate(chosen) if is_chosen] == [0]
        first = watch.page.locator("[data-row] [data-open]").first.get_attribute("href")
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url(f"**{first}")
        watch.page.keyboard.press("u")
        watch.page.wait_for_url("**/traces")
