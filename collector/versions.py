"""Which versions run."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Of the program and of what it stands on, by their names."""
    return (("Tracejury", _version("tracejury")), ("DuckDB", _version("duckdb")), ("Python", platform.python_version()))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"
