"""Safe terminal output: no control characters, whatever a span holds."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from collector.escaping import harmless


def prepare_output() -> None:
    """Make all output of this process safe: encodable, and without control characters from spans.

    Only the styles of `output_console` bypass it.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
        if stream.isatty() and not isinstance(stream, Terminal):
            setattr(sys, name, Terminal(stream))


class Terminal:
    """A text stream that writes no control characters, nor others that move, hide or reorder text."""

    def __init__(self, stream: TextIO) -> None:
        self.beneath = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        return getattr(self.beneath, name)

    def write(self, text: str) -> int:
        """Write a text with all characters replaced that move the cursor, or hide or reorder text."""
        self.beneath.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each as `write` does."""
        for line in lines:
            self.write(line)
