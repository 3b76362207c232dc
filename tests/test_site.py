"""The documents as a site: `make docs` builds it, every link in it works, and it requests nothing elsewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.costly("docs", "mkdocs.yml", "README.md", "ARCHITECTURE.md", "sdk/python/README.md")

ROOT = Path(__file__).parent.parent
_LOADED = {("link", "href"), ("script", "src"), ("img", "src")}


class SitePage(HTMLParser):
    """The links, resources and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names."""
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            if (tag, name) in _LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, built as strictly as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, SitePage]:
    """Return every page of it but the one for addresses that are wrong."""
    paths = (path for path in site.rglob("*.html") if path.name != "404.html")
    return {path.resolve(): SitePage(path.read_text(encoding="utf-8")) for path in paths}


def test_every_document_is_a_page(site: Path, pages: dict[Path, SitePage]) -> None:
    """The README is the first page, and each document in docs/ has one of its own."""
    documents = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    others = {Path(name) for name in ("index.html", "architecture.html", "sdk.html", "adr/index.html")}
    paths = {path.relative_to(site.resolve()) for path in pages}
    assert documents | others <= paths


def test_models_find_every_page(site: Path) -> None:
    """`llms.txt` links to each page of the navigation with how it begins, and `llms-full.txt` holds them."""
    index = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", index)
    assert len(links) > 40
    assert [link for link in links if not (site / link).is_file()] == []
    assert "- [Rules](rules.html): With this page you can write a rule" in index
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    for page in ("README.md", "docs/rules.md", "sdk/python/README.md"):
        assert (ROOT / page).read_text(encoding="utf-8") in whole


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, SitePage]) -> None:
    """Every link leads to a file of the site, and to an existing anchor in it."""
    lost = [f"{path.name}: {link}" for path, page in pages.items() for link in _lost(path, page, pages)]
    assert lost == []


def _lost(path: Path, page: SitePage, pages: dict[Path, SitePage]) -> Iterator[str]:
    for link in page.links:
        url = urlsplit(link)
        if url.scheme:
            continue
        target = (path.parent / unquote(url.path)).resolve() if url.path else path
        if target.is_dir():
            target /= "index.html"
        anchor = unquote(url.fragment)
        if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
            yield link


def test_the_site_asks_nobody_else(pages: dict[Path, SitePage]) -> None:
    """Styles, scripts, fonts and pictures are its own."""
    assert {each for page in pages.values() for each in page.loaded if urlsplit(each).netloc} == set()
