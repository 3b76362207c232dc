"""DuckDB opened in this process, and spared a search that finds nothing."""

import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import duckdb

_NICENESS = 10  # as that of whoever asks SQL


class _NoPandas:
    """The first whom Python asks for a module: that it has no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse pandas, and leave all else to others.

        Raises:
            ModuleNotFoundError: it is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("there is no pandas here", name=name)


def open_duckdb(config: Mapping[str, str | int | bool]) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, whose own threads stand back behind those that ask it.

    Linux gives a thread the niceness of the one that starts it. So questions that take all processors leave ingest its
    part: a commit is done by the thread that asks for it.

    DuckDB 1.5.5 tries twice for each parameter of a statement to import pandas, and where there is none, Python looks
    through its path each time: 80 µs of CPU a parameter, 18 of the 58 ms that a list of 50 traces took. Told at once
    that there is none, it takes 5 to 15. (Not `sys.modules["pandas"] = None`: pyarrow takes that for a module.)
    """
    with ThreadPoolExecutor(1, initializer=_be_nice) as patient:
        return patient.submit(_connect, config).result()


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)


def _connect(config: Mapping[str, str | int | bool]) -> duckdb.DuckDBPyConnection:
    if _NoPandas not in sys.meta_path and "pandas" not in sys.modules and find_spec("pandas") is None:
        sys.meta_path.insert(0, _NoPandas)
    return duckdb.connect(":memory:", config=dict(config))
