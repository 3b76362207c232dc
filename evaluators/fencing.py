"""Data in prompts: fenced, so that they cannot pose as instructions, and as JSON, so that one cannot pose as two."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.model import text_of

_BOUNDARY_DIGITS = 16


def fenced(**data: object) -> dict[str, str]:
    """The values of a prompt's places: each in a fence that nothing inside can end, and `boundary`, the fence's mark.

    The mark is a digest of the data, so that a prompt is the same whenever its data are; text that contains its own
    mark would be a miracle, and gets another mark.
    """
    texts = {name: value if isinstance(value, str) else pretty(value) for name, value in data.items()}
    boundary = ""
    while not boundary or any(boundary in text for text in texts.values()):
        digest = hashlib.sha256("\0".join([boundary, *texts.values()]).encode("utf-8", "surrogatepass"))
        boundary = digest.hexdigest()[:_BOUNDARY_DIGITS]
    fences = {name: f'<data-{boundary} name="{name}">\n{text}\n</data-{boundary}>' for name, text in texts.items()}
    return fences | {"boundary": boundary}


def pretty(value: object) -> str:
    """A value as a judge reads it: text as it is, everything else as indented JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(json.loads(text_of(value)), ensure_ascii=False, indent=2)


def numbered(values: Sequence[Mapping[str, Any]]) -> str:
    """A JSON list with a number for each, so that no text in one can pose as another."""
    items = [{"index": number, **value} for number, value in enumerate(values, start=1)]
    return pretty(items)
