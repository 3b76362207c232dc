"""Spans that are dropped before they are stored, by the instrumentation scope that sent them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.ingest.batch import SpanBatch

EVERY_PROJECT: Final = "*"


class DroppedScope(NamedTuple):
    """An entry of the setting: a project or `*`, and a scope as the setting spells it."""

    project: str
    scope: str

    def is_of(self, name: str, version: str) -> bool:
        """Return True if the entry matches a scope's name, or its name and version; a final `*` matches any rest."""
        texts = (name, f"{name} {version}")
        return any(map(self._fits, texts))

    def _fits(self, text: str) -> bool:
        return text.startswith(self.scope[:-1]) if self.scope.endswith("*") else text == self.scope


class ScopeFilter:
    """Filter that drops the spans of configured scopes. It tests each distinct scope once, and spans by column."""

    def __init__(self, scopes: Mapping[str, Sequence[str]]) -> None:
        """Set up with the scopes by project; those under `*` are dropped from all projects."""
        ordered = sorted(scopes, key=EVERY_PROJECT.__eq__)  # `*` last: it counts only the remaining spans
        self.entries = tuple(DroppedScope(project, scope) for project in ordered for scope in scopes[project])

    def drop(self, batch: SpanBatch) -> tuple[SpanBatch, Counter[DroppedScope]]:
        """Return the batch without the spans of these scopes, and the number of dropped spans by entry."""
        counts: Counter[DroppedScope] = Counter()
        ids_by_entry = self._present(batch.scopes)
        if not ids_by_entry or not batch.spans.num_rows:
            return batch, counts
        scope_ids, projects = batch.spans.column("scope_id"), batch.spans.column("project")
        is_dropped = np.zeros(batch.spans.num_rows, dtype=np.bool_)
        for entry, ids in ids_by_entry.items():
            mask = pc.is_in(scope_ids, value_set=pa.array(ids, pa.uint64()))
            if entry.project != EVERY_PROJECT:
                mask = pc.and_(mask, pc.equal(projects, entry.project).fill_null(fill_value=False))
            is_new = mask.to_numpy() & ~is_dropped
            counts[entry] = int(np.count_nonzero(is_new))
            is_dropped |= is_new
        if not is_dropped.any():
            return batch, Counter()
        return replace(batch, spans=batch.spans.filter(pa.array(~is_dropped)).combine_chunks()), +counts

    def _present(self, scopes: pa.Table) -> dict[DroppedScope, list[int]]:
        """Return the ids of the batch's scopes that each entry matches."""
        by_entry: dict[DroppedScope, list[int]] = {}
        columns = (scopes.column(name).to_pylist() for name in ("scope_id", "name", "version"))
        for scope_id, name, version in zip(*columns, strict=True):
            for entry in self.entries:
                if name and entry.is_of(name, version or ""):
                    by_entry.setdefault(entry, []).append(scope_id)
        return by_entry
