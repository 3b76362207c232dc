"""Documents: the targets of their references exist."""

import re
from pathlib import Path

import pytest

from tests.source_tree import PACKAGES, files

ROOT = Path(__file__).parent.parent
COLLECTOR = ROOT / "collector"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """List the anchors of a document that links can name: headings as GitHub writes them, and explicit anchors."""
    text = _CODE.sub("", document.read_text(encoding="utf-8"))
    headings = _HEADING.findall(text)
    return set(_ANCHOR.findall(text)) | {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    """To a file or folder of the project, and to a heading that is in it."""
    lost = []
    for target in _LINK.findall(_CODE.sub("", document.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"https?:|mailto:", target):
            continue
        destination = document if not path else (document.parent / path).resolve()
        if not destination.exists() or (anchor and anchor not in anchors(destination)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/flow.md", "docs/invariants.md", "docs/extending.md"])
def test_every_path_in_the_architecture_is_there(page: str) -> None:
    """A file or folder that it names with its folder is in the repository, or in `collector/`."""
    named = set(re.findall(r"`([a-z_]+/[\w/.-]+)`", (ROOT / page).read_text(encoding="utf-8")))
    assert sorted(each for each in named if not any((place / each).exists() for place in (ROOT, COLLECTOR))) == []


def test_the_architecture_names_every_room() -> None:
    """Each package that holds modules is in a table of rooms."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = {
        Path(each)
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for each in re.findall(r"`([\w/]+)`", row)
    }
    rooms = {Path(file.path).parent for file in files(*PACKAGES) if not file.path.endswith("__init__.py")}
    assert sorted(map(str, rooms - named)) == []


def test_decisions_have_numbers_of_their_own() -> None:
    """The number in the name of each file of `docs/adr` is that of its heading, and of no other file."""
    numbers = {file.name: file.name[:3] for file in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    assert len(set(numbers.values())) == len(numbers)
    for name, number in numbers.items():
        assert (ROOT / "docs" / "adr" / name).read_text(encoding="utf-8").startswith(f"# {number}"), name
