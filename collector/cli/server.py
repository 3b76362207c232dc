"""A running server, as what the commands read from."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from collector.cli.connecting import (
    NO_PARAMETERS,
    Document,
    NoAnswer,
    Parameters,
    ServerRequests,
    address_of,
    error_of,
    json_of,
    unreachable,
)
from collector.path_names import path_segment
from storage.records import ANY_JUDGING, Judging

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.query.exports import Unread

_CONNECTIONS = "/api/v1/llm-connections"

PAGE = 100
"""Documents of a list that are asked for at a time. A guess."""

_SWEEP_TIMEOUT_S = 3_600
_CHUNK_BYTES = 1 << 18
_LOOK_S = 1.0  # between two looks at how far a server is


class Server(ServerRequests):
    """A running server, as commands that read from a data directory as well ask it."""

    def traces(self, *, project: str | None, limit: int, judging: Judging = ANY_JUDGING) -> list[Document]:
        """The newest traces, or those that were judged so."""
        wanted = {name: value for name, value in {"project": project, **asdict(judging)}.items() if value is not None}
        return self._pages("/api/v1/traces", wanted, limit=limit, key="traceId")

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""
        return self._find(f"/api/v1/traces/{path_segment(trace_id)}")

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""
        return self._find(f"/api/v1/traces/{path_segment(trace_id)}/otlp")

    def rules(self) -> Document:
        """All rules, what each did of late, and what is wrong with files."""
        return self._ask("GET", "/api/v1/trace-eval-rules")

    def status(self) -> Document:
        """How it stands."""
        return self._ask("GET", "/api/v1/status")

    def backfill_of(self, project: str, rule_id: str, backfill_id: str) -> Document:
        """How far a run of a rule is."""
        return self._ask("GET", f"{_backfills(project, rule_id)}/{path_segment(backfill_id)}")

    def baseline(self, project: str, rule_id: str) -> Document:
        """Judge again what monitors of a rule lack to compare with; the backfill that does."""
        return self._ask("POST", _baseline(project, rule_id))

    def baseline_estimate(self, project: str, rule_id: str) -> Document:
        """Estimate what that judges and costs."""
        return self._ask("GET", _baseline(project, rule_id))

    def backfill(self, project: str, rule_id: str, bounds: Mapping[str, str]) -> Document:
        """Start one."""
        return self._ask("POST", _backfills(project, rule_id), json=bounds)

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query."""
        return self._ask("POST", "/api/v1/sql", json={"sql": statement, "parameters": dict(parameters)})

    def jobs(self, wanted: Mapping[str, str], *, limit: int) -> list[Document]:
        """The newest jobs."""
        return self._pages("/api/v1/jobs", wanted, limit=limit, key="id")

    def retry_job(self, job_id: int) -> int:
        """Evaluate a failed job again."""
        self._ask("POST", f"/api/v1/jobs/{job_id}/retry")
        return 1

    def retry_failed(self, filters: Mapping[str, str]) -> int:
        """Evaluate again what failed."""
        retried = self._ask("POST", "/api/v1/jobs/retry", json=dict(filters)).get("retried")
        if not isinstance(retried, int):
            raise self.stranger()
        return retried

    def _pages(self, path: str, wanted: Mapping[str, str], *, limit: int, key: str) -> list[Document]:
        """The first documents of a list, page by page; one that moved to the next page meanwhile counts once."""
        found: dict[object, Document] = {}
        size, page = min(limit, PAGE), 0
        while len(found) < limit:
            answer = self._ask("GET", path, params={"page": page, "size": size, **wanted})
            content = answer.get("content")
            if not isinstance(content, list):
                raise self.stranger()
            found |= {document.get(key): document for document in content if isinstance(document, dict)}
            if answer.get("last") is not False:
                break
            page += 1
        return list(found.values())[:limit]

    def connections(self) -> list[Document]:
        """The connections to models that judge."""
        response = self.send("GET", _CONNECTIONS)
        listed = json_of(response)
        if not response.is_success or not isinstance(listed, list):
            raise self.refusal(response)
        return [document for document in listed if isinstance(document, dict)]

    def try_connection(self, connection_id: str) -> Document:
        """Whether a connection works."""
        return self._ask("POST", f"{_CONNECTIONS}/{path_segment(connection_id)}/test")

    def deletions(self, *, limit: int) -> list[Document]:
        """The latest deletions."""
        return self._pages("/api/v1/deletions", {}, limit=limit, key="id")

    def sweep(self, *, dry_run: bool, is_confirmed: bool) -> Document:
        """Let expired traces leave, or say what would."""
        params = {"dryRun": dry_run, "confirm": is_confirmed}
        return self._ask("POST", "/api/v1/sweep", params=params, timeout=_SWEEP_TIMEOUT_S)

    def reread(self) -> Iterator[int]:
        """Wait until the server has read the spans again that an older version read; how many are left."""
        while left := int(str(self.status()["olderSpans"])):
            yield left
            time.sleep(_LOOK_S)
        yield 0

    def backup(self, target: Path) -> None:
        """Write a copy of the database to a file."""
        with self._stream("/api/v1/backup", method="POST") as response, target.open("wb") as file:
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                if chunk.strip(b"\0"):
                    file.write(chunk)
                else:  # a hole
                    file.seek(len(chunk), os.SEEK_CUR)
            file.truncate()
            os.fsync(file.fileno())

    def spans(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> "Iterator[pa.RecordBatch]":
        """The spans that start between two instants, by time, after an empty batch with the schema."""
        import pyarrow as pa

        from storage.query.exports import LEFT_OUT, left_out_in

        with self._export(from_ns, to_ns, form="arrow") as response:
            reader = pa.ipc.open_stream(_Body(response.iter_bytes()))
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                if metadata is not None and LEFT_OUT in metadata:
                    unread += left_out_in(metadata[LEFT_OUT])
                else:
                    yield batch

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> Iterator[bytes]:
        """The spans that start between two instants, as OTLP/JSON export requests, some whole lines at a time."""
        from collector.otlp.encode import LINES_TYPE
        from storage.query.exports import LEFT_OUT, left_out_in

        begin = f'{{"{LEFT_OUT}":'.encode()
        with self._export(from_ns, to_ns, form="otlp-json") as response:
            if not response.headers.get("content-type", "").startswith(LINES_TYPE):  # of a server that is older
                raise NoAnswer(f"the server at {address_of(self._client)} cannot export OTLP; use its own version")
            for lines in _whole_lines(response.iter_bytes()):
                rest, end, last = lines[:-1].rpartition(b"\n")
                if last.startswith(begin):
                    unread += left_out_in(last[len(begin) : -1])
                    yield from [rest + end] * bool(rest)
                else:
                    yield lines

    @contextmanager
    def _export(self, from_ns: int, to_ns: int, *, form: str) -> Iterator[httpx.Response]:
        from collector.api.base.times import time_text

        bounds = {"from": time_text(from_ns) or "1970-01-01T00:00:00Z", "to": time_text(to_ns) or ""}
        with self._stream("/api/v1/export/spans", params=bounds | {"format": form, "damage": "leave-out"}) as response:
            yield response

    @contextmanager
    def _stream(
        self, path: str, params: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Iterator[httpx.Response]:
        try:
            with self._client.stream(method, path, params=params, timeout=_SWEEP_TIMEOUT_S) as response:
                if not response.is_success:
                    response.read()
                    self._document(response)
                yield response
        except httpx.TransportError as error:
            raise unreachable(self._client, error) from error

    def request(self, method: str, path: str, **content: object) -> object:
        """What the server answers to any request; None where it has nothing to say.

        Raises:
            click.ClickException: it answers with an error, or not at all.
        """
        response = self.send(method, path, **content)
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        return json_of(response) if response.is_success else self._document(response)

    def _find(self, path: str) -> Document | None:
        response = self.send("GET", path)
        if response.status_code == httpx.codes.NOT_FOUND and error_of(response):
            return None
        return self._document(response)

    def _ask(self, method: str, path: str, **content: object) -> Document:
        return self._document(self.send(method, path, **content))

    def _document(self, response: httpx.Response) -> Document:
        if response.is_success:
            document = json_of(response)
            if isinstance(document, dict):
                return document
        raise self.refusal(response)


class _Body:
    """The bytes of an answer as a file."""

    closed = False

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0 and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            missing -= len(chunk)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def close(self) -> None:
        """Do nothing: the answer is closed by whoever opened it."""


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of the chunks, cut behind ends of lines."""
    parts: list[bytes] = []
    for chunk in chunks:
        lines, end, begun = chunk.rpartition(b"\n")
        if end:
            yield b"".join([*parts, lines, end])
            parts = [begun]
        else:
            parts.append(chunk)


def _baseline(project: str, rule_id: str) -> str:
    return f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{path_segment(rule_id)}/baseline"


def _backfills(project: str, rule_id: str) -> str:
    return f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{path_segment(rule_id)}/backfills"
