"""Results in a file, one a line of JSON: `{"stream": …, "release": …, "passed": …, "score": …}`."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click

from collector.escaping import one_line
from rules.statistics.monitor import MonitoredResult

_GZIP: Final = b"\x1f\x8b"
_PROBLEMS: Final = 20  # that are reported at once
_SHOWN_CHARS: Final = 40
_LINE_BYTES: Final = 1 << 20


class BadLines(click.ClickException):
    """Invalid lines; the message has the number, the key and the expected value of each."""


class _BadLine(Exception):
    """Error in a line."""


def read_results(file: str) -> Iterator[tuple[str, MonitoredResult]]:
    """Yield the results with their streams, in order. Blank lines are skipped.

    Raises:
        BadLines: some lines are wrong; raised at the end, or after twenty errors.
        click.ClickException: the file cannot be read.
    """
    problems: list[str] = []
    try:
        with _opened(file) as lines:
            for number, line in enumerate(iter(lambda: lines.readline(_LINE_BYTES), b""), start=1):
                try:
                    if line.strip():
                        result = _result(line)
                        if not problems:
                            yield result
                except _BadLine as error:
                    problems.append(f"{one_line(file)}:{number}: {error}")
                    if len(problems) == _PROBLEMS:
                        break
    except (OSError, EOFError, zlib.error) as error:
        raise click.ClickException(f"{one_line(file)} cannot be read: {error}") from error
    if problems:
        raise BadLines("\n".join(problems))


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    with _raw(file) as raw:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw


@contextmanager
def _raw(file: str) -> Iterator["BufferedReader[Any]"]:
    if file == "-":
        reader: BufferedReader[Any] = BufferedReader(
            cast("RawIOBase", sys.stdin.buffer)
        )  # not each kind of input can be peeked into
        try:
            yield reader
        finally:
            reader.detach()
        return
    with Path(file).open("rb") as opened:
        yield opened


def _result(line: bytes) -> tuple[str, MonitoredResult]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _BadLine(f"not JSON: {one_line(str(error))}") from error
    if not isinstance(document, dict):
        raise _BadLine('must be an object such as {"stream": "a", "release": "1", "passed": true, "score": null}')
    stream = document.get("stream")
    if not isinstance(stream, str) or not stream:
        raise _wrong(document, "stream", "must be a text that is not empty")
    release = document.get("release")
    if release is not None and not isinstance(release, str):
        raise _wrong(document, "release", "must be a text, or null")
    passed, score = document.get("passed"), document.get("score")
    if passed is not None and not isinstance(passed, bool):
        raise _wrong(document, "passed", "must be true, false or null")
    if score is not None and not _is_score(score):
        raise _wrong(document, "score", "must be a number from 0 to 1, or null")
    if "passed" not in document and "score" not in document:
        raise _BadLine("passed or score is required; send null if there is no verdict")
    return stream, MonitoredResult(release, passed, score)


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _wrong(document: Mapping[str, Any], key: str, right: str) -> _BadLine:
    if key not in document:
        return _BadLine(f"{key}: {right} (there is none)")
    text = json.dumps(document[key], ensure_ascii=False)
    shown = text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
    return _BadLine(f"{key}: {right} (got {one_line(shown)})")
