"""The examples of the page about capturing content: what each installs, sets and runs."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "capture.md"
EXPORTERS = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One example: its code, and what its shell commands install and export."""

    name: str
    code: str
    pip: Sequence[str]
    npm: Sequence[str]
    env: dict[str, str]


def tracing_module() -> str:
    """Return the module that the examples import."""
    (code,) = re.findall(r'^```python title="tracing.py"\n(.*?)^```$', _page(), re.MULTILINE | re.DOTALL)
    return str(code)


def snippets() -> list[Snippet]:
    """Return the examples in the order of the page."""
    return [_snippet(section) for section in _page().split("\n## ")[1:]]


def _snippet(section: str) -> Snippet:
    blocks = re.findall(r"^```(sh|python|js)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (code,) = (text for language, text in blocks if language != "sh")
    pip: list[str] = []
    npm: list[str] = []
    env: dict[str, str] = {}
    for words in (shlex.split(line) for language, text in blocks if language == "sh" for line in text.splitlines()):
        match words:
            case ["pip", "install", *packages]:
                pip += packages
            case ["npm", "install", *packages]:
                npm += packages
            case ["export", *settings]:
                env |= dict(setting.split("=", 1) for setting in settings)
            case _:
                raise ValueError(f"no command that is known: {words}")
    return Snippet(name=section.partition("\n")[0], code=code, pip=pip, npm=npm, env=env)


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")
