"""What a rule said over time, and what each revision changed."""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rules.rule_yaml import yaml_of
from storage.judging.rule_record import PastRevision

_AROUND: Final = 2
_SIGNS: Final = {"+": "added", "-": "removed", " ": "same"}
MAX_SHOWN: Final = 50
"""Revisions on a page. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a difference."""

    kind: str  # added, removed or same
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionChange:
    """A revision, and how it differs from the one before."""

    revision: PastRevision
    lines: Sequence[DiffLine]  # nothing of the first

    @property
    def counts(self) -> tuple[int, int]:
        """Lines that were added, and that were removed."""
        added, removed = (sum(line.kind == kind for line in self.lines) for kind in ("added", "removed"))
        return added, removed


def steps(revisions: Sequence[PastRevision]) -> Iterator[RevisionChange]:
    """The latest revisions, the last first, each with its difference."""
    texts = [yaml_of(json.loads(each.document)).splitlines() for each in revisions[: MAX_SHOWN + 1]]
    for number, each in enumerate(revisions[:MAX_SHOWN]):
        before = texts[number + 1] if number + 1 < len(texts) else None
        yield RevisionChange(revision=each, lines=[] if before is None else list(_difference(before, texts[number])))


def _difference(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    compared = list(difflib.unified_diff(before, after, n=_AROUND, lineterm=""))
    for line in compared[2:]:  # what it begins with are names of files
        if line.startswith("@@"):
            yield DiffLine(kind="gap", text="…")
        else:
            yield DiffLine(kind=_SIGNS[line[:1]], text=line[1:])
