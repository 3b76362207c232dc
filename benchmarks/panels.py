"""A process that runs the queries of dashboards, one after the other, until it is killed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
import httpx

ROOT: Final = Path(__file__).resolve().parents[1]
HEAVY: Final = "SELECT count(*) FROM spans WHERE regexp_matches(attributes::VARCHAR, 'no (such|other) text')"
TIMEOUT_S: Final = 120.0


def documented_queries() -> list[str]:
    """Return the queries of the page about dashboards that have a time filter, as every panel's has."""
    section = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    queries = [query.strip() for block in blocks for query in block.split(";") if query.strip()]
    return [query for query in queries if "INTERVAL" in query]


def main() -> None:
    """Ask, and print how long each query took in milliseconds, or why it failed."""
    kind, address, key = sys.argv[1:]
    ask = _over_quack(address, key) if kind == "quack" else _over_http(address, key)
    queries = [HEAVY] if kind == "heavy" else documented_queries()
    print("ready", flush=True)
    for query in itertools.cycle(queries):
        start_s = time.perf_counter()
        failure = ask(query)
        print(json.dumps(failure or 1e3 * (time.perf_counter() - start_s)), flush=True)


def _over_http(address: str, key: str) -> Callable[[str], str | None]:
    client = httpx.Client(base_url=address, headers={"authorization": f"Bearer {key}"}, timeout=TIMEOUT_S)

    def ask(query: str) -> str | None:
        answer = client.post("/api/v1/sql", json={"sql": query})
        return None if answer.is_success else answer.text

    return ask


def _over_quack(address: str, key: str) -> Callable[[str], str | None]:
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    for name in ("httpfs", "quack"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        (folder,) = spec.submodule_search_locations or [""]
        connection.execute(f"LOAD '{folder}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
    connection.execute("SET enable_progress_bar = false")  # nothing else goes to standard output
    connection.execute(f"ATTACH 'quack:{address}' AS tj (TOKEN '{key}')")

    def ask(query: str) -> str | None:
        quoted = query.replace("'", "''")
        try:
            connection.execute(f"FROM tj.query('{quoted}')").fetchall()
        except duckdb.Error as error:
            return str(error)
        return None

    return ask


if __name__ == "__main__":
    main()
