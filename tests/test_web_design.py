"""The design of the pages: one set of tokens, held for every style sheet, and what docs/design.md says of them."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final

import pytest

from collector.web.assets import ICONS, asset, icon
from collector.web.site import MENU
from tests.paging import Shown, Visit, a_shown_server, path_of, templates
from tests.source_tree import ROOT

SHEETS = sorted((ROOT / "collector" / "web" / "static").glob("*.css"))
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
STATIC = ROOT / "collector" / "web" / "static"
TEMPLATES = ROOT / "collector" / "web" / "templates"
_TOKEN = re.compile(r"^  (--[\w-]+): ", re.MULTILINE)


def rules_of(name: str) -> str:
    """Return a style sheet without its comments, its tokens and the indents of the tree."""
    text = next(sheet for sheet in SHEETS if sheet.name == name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"@font-face \{.*?^\}", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\A\s*:root \{.*?^\}", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\.d\d+ \{[^}]*\}", "", text)


@pytest.mark.parametrize("sheet", [sheet.name for sheet in SHEETS])
def test_sizes_spaces_and_colours_are_tokens(sheet: str) -> None:
    """No rule has a size of text, a margin, a padding, a gap or a colour that is none of the scale."""
    rules = rules_of(sheet)
    assert re.findall(r"font-size: [\d.]+(?:rem|px)", rules) == []
    assert re.findall(r"font: (?!var\(--(?:text|mono|tick|large-tick)\)|inherit)[^;}]+", rules) == []
    assert re.findall(r"font-family: (?!inherit)[^;}]+", rules) == []
    assert re.findall(r"(?:margin|padding|gap)[a-z-]*: [^;}]*\d(?:rem)", rules) == []
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)|rgba?\(|hsla?\(", rules) == []


def test_every_token_is_there_and_told() -> None:
    """What rules use is defined, and docs/design.md names each token."""
    defined = set(_TOKEN.findall((ROOT / "collector/web/static/app.css").read_text(encoding="utf-8")))
    used = {name for sheet in SHEETS for name in re.findall(r"var\((--[\w-]+)", rules_of(sheet.name))}
    assert used - defined - {"--type", "--tree", "--pane"} == set()  # classes and a script set these
    steps = {name for name in defined if name.startswith("--space-")}
    assert [name for name in sorted(defined - steps) if f"`{name}`" not in DESIGN] == []
    assert {"--space-1", "--space-9"} <= steps


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Start one server for all tests."""
    with a_shown_server(tmp_path_factory.mktemp("design") / "data") as server:
        yield server


def test_a_page_has_one_primary_action(shown: Shown) -> None:
    """At most one button of a page is filled, so that the next step is plain."""
    with Visit(shown.origin) as visit:
        pages = {template: visit.get(path_of(template, shown)).text for template in templates()}
    many = {name: text.count('class="primary') + text.count('button primary"') for name, text in pages.items()}
    assert {name: count for name, count in many.items() if count > 1} == {}


LED: Final = (
    "/traces/{trace_id}",
    "/traces/{trace_id}/compare",
    "/rules/{rule_id}",
    "/alerts/{alert_id}",
    "/connections/{connection_id}",
    "/runs/{run_id}/diff",
    "/review/{queue_id}/entries/{entry_id}",
    "/playground",
    "/status",
)
"""Pages with several cards of which one is primary."""


def test_a_page_has_one_primary_card(shown: Shown) -> None:
    """Of several cards, one stands out; no page has two of these."""
    with Visit(shown.origin) as visit:
        leads = {
            template: visit.get(path_of(template, shown)).text.count('class="card lead') for template in templates()
        }
    assert {name: count for name, count in leads.items() if count > 1} == {}
    assert [name for name in LED if leads[name] != 1] == []


SHORT: Final = ("/datasets", "/experiments", "/review", "/connections", "/webhooks")


def test_a_short_list_says_what_comes_next(shown: Shown) -> None:
    """Below a list of one row stand the next steps; below an empty one its own, and below a longer one none."""
    paths = (
        "/datasets/{dataset_id}",
        "/runs/{run_id}",
        "/review/{queue_id}",
        "/connections/{connection_id}",
        "/webhooks/{webhook_id}",
    )
    with Visit(shown.origin) as visit:
        for path in paths:
            path_of(path, shown)
        for path in SHORT:
            page = visit.get(path).text
            assert (page.count("data-row"), page.count('class="next-steps"')) == (1, 1), path
        assert 'class="next-steps"' not in visit.get("/traces").text


class _Actions(HTMLParser):
    """The number of buttons and links beside the name of a page, without those in its menu *More*."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if self._open or (tag == "div" and "actions" in classes):
            if tag in {"div", "details"}:
                self._open.append("more" if "more" in classes else tag)
            is_action = tag in {"button", "summary"} or (tag == "a" and "button" in classes)
            self.count += is_action and ("more" not in self._open or tag == "summary")

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag in {"div", "details"}:
            self._open.pop()


def test_what_is_done_less_often_is_in_a_menu(shown: Shown) -> None:
    """Beside the name of a page stand three actions at most, which take one row; the others are behind *More*."""
    counts = {}
    with Visit(shown.origin) as visit:
        for template in templates():
            parser = _Actions()
            parser.feed(visit.get(path_of(template, shown)).text)
            counts[template] = parser.count
    assert max(counts.values()) == 3
    assert {template: count for template, count in counts.items() if count > 3} == {}


def test_icons_are_those_that_are_used() -> None:
    """The file of symbols has exactly the icons in use, and the document explains each."""
    texts = [path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html")]
    named = {name for text in texts for name in re.findall(r"icon\(['\"]([a-z0-9-]+)['\"]\)", text)}
    in_menu = {entry.icon for entry in MENU}
    assert named | in_menu == ICONS
    assert len(in_menu) == len(MENU)
    assert [name for name in ("plus", "pencil", "trash-2", "x", "download", "inbox") if f"`{name}`" not in DESIGN] == []
    assert 'aria-hidden="true"' in icon("plus")
    with pytest.raises(KeyError):
        icon("nothing")


@pytest.mark.parametrize(
    "name, message",
    [("icons", "ISC License"), ("icons", "The MIT License"), ("inter", "SIL Open Font License, Version 1.1")],
)
def test_what_others_made_has_its_licence_beside_it(name: str, message: str) -> None:
    """The texts of the licences travel with the font and the icons."""
    assert message in " ".join((STATIC / f"{name}.LICENSE.txt").read_text(encoding="utf-8").split())


def test_the_font_is_ours_and_is_kept(shown: Shown) -> None:
    """It comes from our own host, is kept for a year, and the policy of pages lets fonts come from nowhere else."""
    with Visit(shown.origin) as visit:
        answer = visit.get(asset("inter.woff2"))
        policy = visit.get("/traces").headers["content-security-policy"]
    assert (answer.content, answer.headers["content-type"]) == ((STATIC / "inter.woff2").read_bytes(), "font/woff2")
    assert "immutable" in answer.headers["cache-control"]
    assert [part for part in policy.split("; ") if part.startswith("font-src")] == ["font-src 'self'"]
    assert "unsafe" not in policy


class _Tables(HTMLParser):
    """Rows of tables: for each cell whether it is right-aligned; None for one that spans several columns."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[bool] | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in {"td", "th"} and self.tables and self.tables[-1]:
            row = self.tables[-1][-1]
            if "colspan" in attributes or row is None:
                self.tables[-1][-1] = None
            else:
                row.append("right" in (attributes.get("class") or "").split())


def test_heads_stand_above_their_columns(shown: Shown) -> None:
    """In each table of each page a head is at the right where its numbers are, and at the left above words."""
    wrong = []
    with Visit(shown.origin) as visit:
        for template in templates():
            parser = _Tables()
            text = visit.get(path_of(template, shown)).text
            parser.feed(text)
            for head, *rows in (table for table in parser.tables if table):
                if head is not None and "<thead" in text:
                    wrong += [template for row in rows if row is not None and len(row) == len(head) and row != head]
    assert wrong == []


def test_settings_stand_apart_from_operations(shown: Shown) -> None:
    """The menu has four parts, those with a name as lists of that name, and each page of it once."""
    with Visit(shown.origin) as visit:
        menu = visit.get("/traces").text.partition('aria-label="Main"')[2].partition("</nav>")[0]
    parts = re.findall(r'<ul(?: aria-labelledby="menu-(\w+)")?>(.*?)</ul>', menu, re.DOTALL)
    links = {name: re.findall(r'<a href="([^"]+)"', part) for name, part in parts}
    assert list(links) == ["", "evaluate", "settings", "operations"]
    assert links["settings"] == ["/connections", "/webhooks", "/keys"]
    assert links["operations"] == ["/projects", "/jobs", "/audit", "/status"]
    assert [entry.path for entry in MENU] == [path for paths in links.values() for path in paths]


def test_pages_keep_their_weight(shown: Shown) -> None:
    """With all that it loads a page is no heavier than the document says, on a first visit and on its own."""
    assert ("at most 170 kB on a first visit" in DESIGN, "60 kB of its own" in DESIGN) == (True, True)
    common = sum((STATIC / name).stat().st_size for name in ("inter.woff2", "icons.svg", "icon.svg"))
    heavy = {}
    with Visit(shown.origin) as visit:
        for template in templates():
            text = visit.get(path_of(template, shown)).text
            loaded = set(re.findall(r'(?:href|src)="/static/\w+/([\w.]+\.(?:css|js))"', text))
            own = len(text.encode())
            whole = own + common + sum((STATIC / name).stat().st_size for name in loaded)
            if own > 60_000 or whole > 170_000:
                heavy[template] = (own, whole)
    assert heavy == {}
