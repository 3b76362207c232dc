"""Brings into the site what stands outside of docs/: the README, other pages, and each file that a page links to.

Writes what models read, too: `llms.txt`, the list of the pages, and `llms-full.txt`, all of them.

A hook of MkDocs. On the pages that it copies, and on those in docs/, links to other files of the repository are
pointed at their places in the site; a folder becomes a page that lists its files.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs/"
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "sdk/python/README.md": "sdk.md",
}
"""Pages outside of docs/, by the file in the repository: where they are in the site."""

DECISIONS = "docs/adr"
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
_FENCE = re.compile(r"^( *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_LIST = re.compile(r"^(?!(?:[-*] |#|\||>|\d+\. |\s))(.+\S)\n(?=[-*] |\d+\. )", re.MULTILINE)
_HEADING = re.compile(r"(?<=[^\n])\n(?=#{1,6} )")
_MARKED = re.compile(r"^( *```[\w-]+)[^\n]*")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what is outside of docs/, as far as a page links to it, and the list of decisions."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in sorted({target for page in _sources() for target in _targets(page)} - _known(files)):
        place = _place(path)
        if files.get_file_from_path(place) is not None:
            continue
        if (ROOT / path).is_dir():
            files.append(File.generated(config, place, content=_list_of(path)))
            inside = (each for each in sorted((ROOT / path).rglob("*")) if each.is_file() and path != DECISIONS)
            for file in inside:
                _add(files, config, file.relative_to(ROOT).as_posix())
        else:
            _add(files, config, path)
    nav: list[Any] = config.nav or []
    index = f"# {config.site_name}\n\n> {config.site_description}\n{_index_of(nav)}\n"
    files.append(File.generated(config, "llms.txt", content=index))
    files.append(File.generated(config, "llms-full.txt", content="\n".join(map(_text, _sources_of(nav)))))
    return files


def _index_of(nav: list[Any], heading: str = "") -> str:
    """The pages of the navigation for models: a heading for each part, and a line for each page with how it begins."""
    lines = [heading]
    for entry in nav:
        if isinstance(entry, str):
            source = _source_of(entry)
            title, about = ("Decisions", "") if source is None else (_title(ROOT / source), _beginning(_text(source)))
            lines.append(f"- [{title}]({entry.removesuffix('.md')}.html){about and f': {about}'}")
        else:
            ((title, inside),) = entry.items()
            lines.append(_index_of(inside, f"\n## {title}\n"))
    return "\n".join(lines)


def _sources_of(nav: list[Any]) -> Iterator[str]:
    """The files of the pages of the navigation, but for lists that are made here."""
    for entry in nav:
        if isinstance(entry, str):
            source = _source_of(entry)
            if source is not None:
                yield source
        else:
            ((_, inside),) = entry.items()
            yield from _sources_of(inside)


def _text(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


def _beginning(text: str) -> str:
    """The first paragraph of a page in one line, without links; nothing where it begins with something else."""
    first = re.split(r"\n\s*\n", text.partition("\n")[2].strip())[0]
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(first.split()))
    return plain if re.match(r"[A-Za-z`*]", plain) and not plain.startswith("```") else ""


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Point links at places in the site, and part lists and headings from what is before them."""
    place = page.file.src_uri
    pieces = _FENCE.split(markdown)  # every other one is code
    return "".join(_code(piece) if number % 2 else _in_the_site(piece, place) for number, piece in enumerate(pieces))


def _code(piece: str) -> str:
    """A fence without what tests read behind its language, which Python-Markdown does not take for a fence."""
    return _MARKED.sub(r"\1", piece)


def _in_the_site(text: str, place: str) -> str:
    source = _source_of(place)
    text = _HEADING.sub("\n\n", _LIST.sub(r"\1\n\n", text))
    if source is None:
        return text
    folder = posixpath.dirname(place)
    return _LINK.sub(partial(_pointed, source=source, folder=folder), text)


def _sources() -> Iterator[str]:
    """Yield the handwritten pages of the site."""
    yield from PAGES
    for path in sorted((ROOT / DOCS).rglob("*.md")):
        yield path.relative_to(ROOT).as_posix()


def _targets(source: str) -> Iterator[str]:
    """What of the repository a page links to."""
    text = (ROOT / source).read_text(encoding="utf-8")
    for piece in _FENCE.split(text)[::2]:
        for link in _LINK.findall(piece):
            if not _is_elsewhere(link):
                yield _resolved(link, source)


def _known(files: Files) -> set[str]:
    """What is in the site anyway."""
    return {*PAGES, *(f"{DOCS}{file.src_uri}" for file in files)}


def _is_elsewhere(link: str) -> bool:
    return re.match(r"[a-z]+:", link) is not None


def _resolved(link: str, source: str) -> str:
    """The file in the repository that a link of a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _place(path: str) -> str:
    """Where a file or folder of the repository is in the site."""
    if path in PAGES:
        return PAGES[path]
    inside = path.removeprefix(DOCS) if path.startswith(DOCS) else f"source/{path}"
    return f"{inside}/index.md" if (ROOT / path).is_dir() else inside


def _source_of(place: str) -> str | None:
    """The file in the repository that a page of the site is; None of one that is made here."""
    pages = {there: source for source, there in PAGES.items()}
    path = pages.get(place, f"{DOCS}{place}")
    return path if (ROOT / path).is_file() else None


def _pointed(found: re.Match[str], *, source: str, folder: str) -> str:
    link = found.group()
    return link if _is_elsewhere(link) else posixpath.relpath(_place(_resolved(link, source)), folder or ".")


def _add(files: Files, config: MkDocsConfig, path: str) -> None:
    place = _place(path)
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))


def _list_of(path: str) -> str:
    """A page that lists what is in a folder: pages by their titles, other files by their names."""
    folder = ROOT / path
    title = "Decisions" if path == DECISIONS else f"`{path}`"
    inside = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    lines = [f"- [{_title(each)}]({each.relative_to(folder).as_posix()})" for each in inside]
    return "\n".join([f"# {title}", "", *lines, ""])


def _title(path: Path) -> str:
    if path.suffix != ".md":
        return path.name
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
