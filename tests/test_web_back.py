"""Fields that control a page: after Back, a reload, or from the browser's cache, they match the shown content."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import Watch, a_page
from tests.paging import Shown, Visit, a_shown_server, path_of, templates

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEMPLATES = Path(__file__).parent.parent / "collector" / "web" / "templates"
_FORMS = "[...document.querySelectorAll('form[method=get]:not([data-selection])')]"
CHANGE = f"""() => {{
    for (const form of {_FORMS}) for (const field of form.elements) {{
        if (field.matches("select")) field.selectedIndex = (field.selectedIndex + 1) % field.options.length;
        else if (field.matches("[type=checkbox], [type=radio]")) field.checked = !field.checked;
        else if (field.matches("input:not([type=hidden])")) field.value += "7";
    }}
}}"""
"""The script that changes each field, like a user who submits the form, or leaves it unsent."""

CHANGED = f"""() => {_FORMS}.flatMap((form) => [...form.querySelectorAll("input, select")].filter((field) => {{
    if (!field.matches("select")) return field.checked !== field.defaultChecked || field.value !== field.defaultValue;
    const chosen = [...field.options].findIndex((option) => option.defaultSelected);
    return field.selectedIndex !== Math.max(chosen, 0);
}}).map((field) => field.name))"""
"""The names of fields that say something else than the server did."""

FROM_MEMORY = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample."""
    with a_shown_server(tmp_path_factory.mktemp("back") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def filtered(shown: Shown) -> list[str]:
    """Return the addresses of all pages with a form whose fields become the address."""
    with Visit(shown.origin) as visit:
        paths = [path_of(template, shown) for template in templates()] + ["/quality?project=sample"]
        return [path for path in paths if 'method="get"' in visit.get(path).text]


def go_back(watch: Watch) -> None:
    """Follow a link, and come back; the browser here keeps no pages in memory, but draws them again."""
    watch.open("/status")
    watch.page.go_back()


WAYS: dict[str, Callable[[Watch], object]] = {
    "back": go_back,
    "reload": lambda watch: watch.page.reload(),
    "memory": lambda watch: watch.page.evaluate(FROM_MEMORY),  # as browsers do that keep pages as they were left
}


@pytest.mark.parametrize("way", WAYS)
def test_fields_of_filters_say_what_the_page_shows(
    shown: Shown, filtered: list[str], browser: "Browser", way: str
) -> None:
    """Each field of each form that becomes an address holds what the server sent, however the page is returned to."""
    assert {"/", "/traces", "/rules", "/jobs", "/audit"} <= set(filtered)
    touched, wrong = 0, {}
    with a_page(browser, shown.origin) as watch:
        for path in filtered:
            watch.open(path)
            watch.page.evaluate(CHANGE)
            touched += len(watch.page.evaluate(CHANGED))
            WAYS[way](watch)
            if changed := watch.page.evaluate(CHANGED):
                wrong[path] = changed
    assert wrong == {}
    assert touched > 40


def test_no_form_of_a_filter_is_filled_in_by_browsers() -> None:
    """Every such form of a template keeps browsers from restoring it; only a selection of rows is restored."""
    tags = [tag for path in TEMPLATES.glob("*.html") for tag in re.findall(r"<form\b[^>]*>", path.read_text("utf-8"))]
    filters = [tag for tag in tags if 'method="get"' in tag]
    assert len(filters) > 10
    assert [tag for tag in tags if "method=" not in tag] == []
    assert [tag for tag in filters if ('autocomplete="off"' in tag) == ("data-selection" in tag)] == []
    assert len([tag for tag in filters if "data-selection" in tag]) == 2


def test_the_heading_names_the_project(shown: Shown, filtered: list[str]) -> None:
    """Heading and title of a page that can be narrowed down to a project name the project."""
    with Visit(shown.origin) as visit:
        offering = [path for path in filtered if re.search('<select[^>]*name="project"', visit.get(path).text)]
        assert len(offering) >= 5
        for path in [*offering, "/alerts", "/webhooks"]:
            text = visit.get(f"{path.partition('?')[0]}?project=sample").text
            title, heading = (text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0] for tag in ("title", "h1"))
            assert ("sample" in title, "sample" in heading) == (True, True), path


def test_a_found_span_stays_found_out_of_memory(shown: Shown, browser: "Browser") -> None:
    """Text in the search of a tree is in the address, and stays in the field as its rows stay marked."""
    with a_page(browser, shown.origin) as watch:
        watch.open(f"/traces/{shown.trace_id}")
        watch.page.wait_for_selector("#tree[data-drawn]")
        search = watch.page.get_by_role("searchbox", name="Find a span")
        search.fill("chat")
        watch.page.evaluate(FROM_MEMORY)
        assert (search.input_value(), "find=chat" in watch.page.url) == ("chat", True)
        go_back(watch)
        assert search.input_value() == "chat"
