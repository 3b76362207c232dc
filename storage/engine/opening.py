"""DuckDB opened in this process, with threads that stand back."""

import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import duckdb

_NICENESS = 10  # as that of whoever asks SQL


def open_duckdb(config: Mapping[str, str | int | bool]) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, whose own threads stand back behind those that ask it.

    Linux gives a thread the niceness of the one that starts it. So questions that take all processors leave ingest its
    part: a commit is done by the thread that asks for it.
    """
    with ThreadPoolExecutor(1, initializer=_be_nice) as patient:
        return patient.submit(duckdb.connect, ":memory:", config=dict(config)).result()


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
