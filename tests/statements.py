"""Statements of DuckDB, as they are executed: their numbers are exact where times are noisy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest


@contextmanager
def executed() -> Iterator[list[str]]:
    """Collect the text of each statement that this process executes, whatever the thread."""
    texts: list[str] = []
    execute = duckdb.DuckDBPyConnection.execute

    def noted(connection: duckdb.DuckDBPyConnection, query: Any, *parameters: Any, **named: Any) -> Any:
        texts.append(str(query))
        return execute(connection, query, *parameters, **named)

    def noting(name: str) -> Callable[[duckdb.DuckDBPyConnection], Any]:
        method = getattr(duckdb.DuckDBPyConnection, name)

        def call(connection: duckdb.DuckDBPyConnection) -> Any:
            texts.append(name.upper())
            return method(connection)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb.DuckDBPyConnection, "execute", noted)
        for name in ("begin", "commit", "rollback"):
            patch.setattr(duckdb.DuckDBPyConnection, name, noting(name))
        yield texts
