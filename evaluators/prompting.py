"""Prompts: files with a version, rendered with data in fences that are never read as templates or instructions."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from evaluators.judge_interface import PromptMessage
from evaluators.model import text_of

PLACE = re.compile(r"\{\{(\w+)\}\}")
_SECTION = re.compile(r"^\[(system|user)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """One prompt file: a version, a part for the system, a part for the user."""

    name: str
    version: int
    system: str
    user: str
    digest: str  # of the whole file, so that no change of a prompt goes unnoticed

    def render(self, values: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages to a judge. Every placeholder must have its value, and every value its placeholder."""
        places = set(PLACE.findall(self.system + self.user))
        if places != set(values):
            raise KeyError(f"prompt {self.name} has the places {sorted(places)}, and was given {sorted(values)}")
        return (
            PromptMessage(role="system", content=filled(self.system, values)),
            PromptMessage(role="user", content=filled(self.user, values)),
        )


@functools.cache
def prompt(name: str) -> PromptFile:
    """Return the prompt in the file of that name: a line `version: N`, then the sections [system] and [user]."""
    text = (files("evaluators") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    head, listed = sections_of(text)
    sections = dict(listed)
    return PromptFile(
        name=name,
        version=int(head.strip().removeprefix("version:")),
        system=sections["system"],
        user=sections["user"],
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def sections_of(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Split a prompt into the text before its first section, and its sections with their names."""
    head, *parts = _SECTION.split(text)
    return head, [(section, content.strip()) for section, content in zip(parts[::2], parts[1::2], strict=True)]


def filled(template: str, values: Mapping[str, str]) -> str:
    """Fill each placeholder with its value; placeholders within a value are left as they are."""
    return PLACE.sub(lambda place: values[place[1]], template)


_BOUNDARY_DIGITS = 16
_FENCE = re.compile(rf'<data-([0-9a-f]{{{_BOUNDARY_DIGITS}}}) name="[^"]*">\n(.*?)\n</data-\1>', re.DOTALL)


def fenced(**data: object) -> dict[str, str]:
    """Fence the values of a prompt, so that no value can end its fence, and add `boundary`, the fence's mark.

    The mark is a digest of the data, so equal data give equal prompts. Data that contain their own mark, which is
    next to impossible, get another one.
    """
    texts = {name: value if isinstance(value, str) else pretty(value) for name, value in data.items()}
    boundary = ""
    while not boundary or any(boundary in text for text in texts.values()):
        digest = hashlib.sha256("\0".join([boundary, *texts.values()]).encode("utf-8", "surrogatepass"))
        boundary = digest.hexdigest()[:_BOUNDARY_DIGITS]
    fences = {name: f'<data-{boundary} name="{name}">\n{text}\n</data-{boundary}>' for name, text in texts.items()}
    return fences | {"boundary": boundary}


def fences_of(prompt_text: str) -> list[str]:
    """Return the data in the fences of a prompt."""
    return [fence[2] for fence in _FENCE.finditer(prompt_text)]


def pretty(value: object) -> str:
    """Return a value as a judge reads it: text as it is, everything else as indented JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(json.loads(text_of(value)), ensure_ascii=False, indent=2)


def numbered(values: Sequence[Mapping[str, Any]]) -> str:
    """Return a JSON list with numbered entries, so that no text in one can pose as another."""
    items = [{"index": number, **value} for number, value in enumerate(values, start=1)]
    return pretty(items)
