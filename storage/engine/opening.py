"""DuckDB opened in this process, with threads that stand back."""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import duckdb

_Result = TypeVar("_Result")

_NICENESS = 10  # as that of whoever asks SQL


def open_duckdb(config: Mapping[str, str | int | bool]) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, whose own threads stand back behind those that ask it."""
    return standing_back(lambda: duckdb.connect(":memory:", config=dict(config)))


def standing_back(starts_threads: Callable[[], _Result]) -> _Result:
    """What a call returns, made by a thread that stands back, as then all do that the call starts.

    Linux gives a thread the niceness of the one that starts it. So questions that take all processors leave ingest its
    part: a commit is done by the thread that asks for it.
    """
    with ThreadPoolExecutor(1, initializer=_be_nice) as patient:
        return patient.submit(starts_threads).result()


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
