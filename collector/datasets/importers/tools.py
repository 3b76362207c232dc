"""The tools whose files are read."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from collector.datasets.importers.deepeval import read_deepeval
from collector.datasets.importers.langfuse import read_langfuse
from collector.datasets.importers.openai_evals import read_openai_evals
from collector.datasets.importers.phoenix import read_phoenix
from collector.datasets.importers.promptfoo import read_promptfoo
from collector.datasets.importers.reading import BadExport, Place, line_of
from collector.datasets.item import read_item

TOOLS: Final[Mapping[str, Callable[[Path], Iterator[Place]]]] = {
    "deepeval": read_deepeval,
    "langfuse": read_langfuse,
    "openai-evals": read_openai_evals,
    "phoenix": read_phoenix,
    "promptfoo": read_promptfoo,
}


def lines_of(path: Path, tool: str) -> Iterator[bytes]:
    """A file of a tool as JSONL, which the server imports.

    Raises:
        BadExport: it is not what the tool writes; the message says where.
    """
    is_empty = True
    for place, item in TOOLS[tool](path):
        try:
            read_item(item)
            line = f"{line_of(item)}\n".encode()
        except UnicodeEncodeError:
            raise BadExport(f"{place}: half of a surrogate pair is no text; leave it out") from None
        except (TypeError, ValueError) as error:
            raise BadExport(f"{place}: {error}") from None
        is_empty = False
        yield line
    if is_empty:
        raise BadExport(f"{path.name}: there is no item in it")
