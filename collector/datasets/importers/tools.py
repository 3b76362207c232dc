"""Conversion of files of other evaluation tools to the JSONL of the import."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from collector.datasets.importers.deepeval import read_deepeval
from collector.datasets.importers.langfuse import read_langfuse
from collector.datasets.importers.openai_evals import read_openai_evals
from collector.datasets.importers.phoenix import read_phoenix
from collector.datasets.importers.promptfoo import read_promptfoo
from collector.datasets.importers.reading import NO_INPUT, BadExport, Place, line_of
from collector.datasets.item import read_item

TOOLS: Final[Mapping[str, Callable[[Path], Iterator[Place]]]] = {
    "deepeval": read_deepeval,
    "langfuse": read_langfuse,
    "openai-evals": read_openai_evals,
    "phoenix": read_phoenix,
    "promptfoo": read_promptfoo,
}


def lines_of(path: Path, tool: str, left_out: Callable[[str], None] = lambda _: None) -> Iterator[bytes]:
    """Convert a tool's file to JSONL for the import; `left_out` is called with the position of each item without input.

    Raises:
        BadExport: the tool does not write such a file; the message says where.
    """
    is_empty, first = True, ""
    for place, item in _items(path, tool):
        if item is NO_INPUT:
            first = first or f": {place} has no input, and no other one has"
            left_out(place)
            continue
        try:
            read_item(item)
            line = f"{line_of(item)}\n".encode()
        except UnicodeEncodeError:
            raise BadExport(f"{place}: half of a surrogate pair is not valid text; leave it out") from None
        except (TypeError, ValueError) as error:
            raise BadExport(f"{place}: {error}") from None
        is_empty = False
        yield line
    if is_empty:
        raise BadExport(f"{path.name}: there is no item in it{first}")


def _items(path: Path, tool: str) -> Iterator[Place]:
    try:
        yield from TOOLS[tool](path)
    except RecursionError:
        raise BadExport(f"{path.name}: files in it name each other, or it has a thousand levels") from None
