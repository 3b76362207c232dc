"""A DuckDB in a process of its own, which attaches a server and runs the statements it gets, a JSON text a line.

The first line is `{"address": …, "token": …}`; each other one is a statement. The answers, line by line, are
`{"rows": …, "types": …}` or `{"error": …}`.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from tests import forking
from tests.live import environment
from tests.source_tree import ROOT


def main() -> None:
    """Answer line by line."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    for name in ("httpfs", "quack"):
        (package,) = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations  # type: ignore[union-attr,misc] # it is there
        connection.execute(f"LOAD '{package}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET http_retries = 0")  # the tests that wait look again by themselves
    connection.execute("SET enable_progress_bar = false")  # it would end in a line of its own
    for number, line in enumerate(sys.stdin):
        command = json.loads(line)
        statement = command if number else f"ATTACH 'quack:{command['address']}' AS tj (TOKEN '{command['token']}')"
        try:
            cursor = connection.execute(statement)
            answer = {"types": [str(column[1]) for column in cursor.description or ()], "rows": cursor.fetchall()}
        except duckdb.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer, default=str), flush=True)  # noqa: T201 - this is how it answers


class Client:
    """The process, as a test has it."""

    def __init__(self, address: str, token: str) -> None:
        command = [sys.executable, "-c", "from tests.quack_client import main; main()"]
        self.process: subprocess.Popen[str] = forking.start(
            command, stdin=forking.PIPE, stdout=forking.PIPE, text=True, cwd=ROOT, env=environment()
        )
        self.attached = self._say({"address": address, "token": token})

    def ask(self, statement: str) -> dict[str, Any]:
        """Run a statement on the attached database."""
        return self._say(statement)

    def rows(self, statement: str) -> list[list[Any]]:
        """Query the server; return the rows."""
        answer = self._say(statement)
        assert "rows" in answer, answer
        rows: list[list[Any]] = answer["rows"]
        return rows

    def remotely(self, statement: str) -> dict[str, Any]:
        """Run a statement on the server as it is."""
        return self._say(f"FROM tj.query('{statement.replace(chr(39), chr(39) * 2)}')")

    def begin(self, statement: str) -> None:
        """Ask, and do not wait."""
        self._send(statement)

    def answer(self) -> dict[str, Any]:
        """Wait for the result of the statement that was begun."""
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def _say(self, command: object) -> dict[str, Any]:
        self._send(command)
        return self.answer()

    def _send(self, command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()


@contextmanager
def a_client(address: str, token: str) -> Iterator[Client]:
    """Yield a DuckDB that has tried to attach; it is killed at the end of the block."""
    client = Client(address, token)
    try:
        yield client
    finally:
        client.process.kill()
        client.process.communicate()
