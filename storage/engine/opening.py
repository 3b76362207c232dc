"""Opening of in-memory DuckDB instances whose own threads have a low priority."""

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from storage.errors import Unusable

_Result = TypeVar("_Result")

IS_DUCKDB_2: Final = int(duckdb.__version__.partition(".")[0]) > 1

FEW_THREADS: Final[Mapping[str, int]] = {"async_threads": 1} if IS_DUCKDB_2 else {}
"""Settings without which DuckDB 2 starts eight threads for I/O, whose stacks are 32 MB of the address space."""

_NICENESS = 10  # added to that of this process; the processes for SQL queries add 15


def open_duckdb(config: Mapping[str, str | int | bool]) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB in memory whose own threads have a lower priority than its callers."""
    return standing_back(lambda: duckdb.connect(":memory:", config={**FEW_THREADS, **config}))


def standing_back(starts_threads: Callable[[], _Result]) -> _Result:
    """Call a function in a thread with low priority, which all threads that it starts inherit.

    Linux gives a thread the niceness of the one that starts it. So queries that use all processors leave ingest its
    share: a commit is done by the thread that requests it.

    """
    with ThreadPoolExecutor(1, initializer=_be_nice) as patient:
        return patient.submit(starts_threads).result()


def extension(name: str, needed_by: str) -> Path:
    """Return the file of an extension of this DuckDB, which a wheel has.

    Raises:
        Unusable: the wheel is not installed.
    """
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder, "extensions", f"v{duckdb.__version__}", f"{name}.duckdb_extension")
        if path.is_file():
            return path
    wheel = package.replace("_", "-")
    why = "does not fit this DuckDB" if folders else "is not installed"
    raise Unusable(f"{needed_by}: the package {wheel} {why}: pip install {wheel}=={duckdb.__version__}")


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
