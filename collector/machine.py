"""The environment of this process: memory and processors of its machine or control group, and running versions."""

import math
import os
import platform
import resource
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup")
_LEAST_MEMORY, _MOST_MEMORY = 256 << 20, 16 << 30
"""DuckDB's memory: the least that ingest needs, and the most that its caches make use of. Guesses."""

_MOST_FILES: Final = 1 << 20
"""Linux's default limit of the open files of a process (fs.nr_open)."""

_MOST_THREADS: Final = 16
"""Each thread takes memory for its work. A guess."""

_MOST_CHECKING: Final = 3
"""Most processes for checks. The server's process needs more than half of their time per check: more would wait."""


def share_of_memory() -> int:
    """Return a quarter of the memory, in bytes, within bounds."""
    return min(max(memory_bytes() // 4, _LEAST_MEMORY), _MOST_MEMORY)


def share_of_threads() -> int:
    """Return the number of processors, within bounds, as a number of threads."""
    return max(1, min(_processors(), _MOST_THREADS))


def checking_processes() -> int:
    """Return the number of processors, within bounds, as a number of processes for checks."""
    return max(1, min(_processors(), _MOST_CHECKING))


def open_files() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_open_files() -> None:
    """Raise the limit of open files as far as the process may, up to a million."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def memory_bytes() -> int:
    """Return the memory of the machine or its control group."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (_number(_CGROUP / "memory.max"), _number(_CGROUP / "memory" / "memory.limit_in_bytes"))
    return min([installed, *(limit for limit in limits if limit is not None)])


def _processors() -> int:
    usable = len(os.sched_getaffinity(0))
    try:
        quota, period = (_CGROUP / "cpu.max").read_text(encoding="ascii").split()
        return min(usable, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no control group, or one without a limit
        return usable


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no control group, or one without a limit
        return None


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the program and of its main dependencies, by name."""
    return (("Tracejury", _version("tracejury")), ("DuckDB", _version("duckdb")), ("Python", platform.python_version()))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"
