"""Workarounds for DuckDB. Each can be turned off, and a test fails once DuckDB does not need it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workarounds:
    """Active workarounds. The test of each, which says when it can go, is in tests/test_workarounds.py."""

    punch_holes: bool = True  # storage/engine/free_space.py
    rewrite_row_groups: bool = True  # storage/upkeep/compaction.py
    hide_pandas: bool = True  # storage/engine/pandas_import.py
