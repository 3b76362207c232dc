"""Format of the server's own log: lines of text or of JSON, each with the id of its request."""

import json
import logging
import re
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

_EVERY_S: Final = 60.0
_MOST_LINES: Final = 1_000
"""Different lines that are remembered. A guess: some megabytes if each is as long as a client can make it."""
_NUMBERS: Final = re.compile(r"\d+(?:[.,]\d+)*")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

request_id: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""The id of the request that is being answered, if any."""


def request_id_of(header: str | None) -> str:
    """Return the `X-Request-Id` of a request if it is harmless, else a new one."""
    return header if header and _REQUEST_ID.fullmatch(header) else token_hex(8)


def start_logging(*, level: str, form: str) -> None:
    """Log to standard error from now on; `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(RepetitionFilter())
    logging.basicConfig(handlers=[handler], level=level.upper())
    if level.upper() == "INFO":  # at INFO it logs a line for each request
        logging.getLogger("mcp.server.streamable_http").setLevel(logging.WARNING)


class RepetitionFilter(logging.Filter):
    """Filter of warnings and errors that repeat: one a minute, so that retries fill no disk.

    Records with a traceback repeat if message, type of exception and raising line are the same; during a request they
    all pass, because its response refers to the log. Records without one repeat if they come from the same logger and
    differ in numbers only.
    Lines about changes, which have `is_change`, pass. Safe to use from several threads.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._lines: OrderedDict[object, _Repeated] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged; add to it the number of records left out before."""
        has_traceback = record.exc_info is not None and record.exc_info[0] is not None
        if record.levelno < logging.WARNING or getattr(record, "is_change", False):
            return True
        if has_traceback and request_id.get() is not None:
            return True
        now_s, text = self._clock_s(), record.getMessage()
        with self._lock:
            line = self._lines.setdefault(_same(record, text), _Repeated())
            if now_s - line.logged_s < _EVERY_S:
                line.left_out += 1
                return False
            if line.left_out:
                record.msg, record.args = f"{text} ({line.left_out:,} more since the last such line)", ()
            line.logged_s, line.left_out = now_s, 0
            if len(self._lines) > _MOST_LINES:
                self._lines.popitem(last=False)
        return True


@dataclass(slots=True)
class _Repeated:
    logged_s: float = float("-inf")
    left_out: int = 0


def _same(record: logging.LogRecord, text: str) -> object:
    if record.exc_info is None or record.exc_info[0] is None:
        return record.name, _NUMBERS.sub("#", text)
    raised_at = [frame.f_code.co_filename + str(line) for frame, line in traceback.walk_tb(record.exc_info[2])][-1:]
    return (record.name, record.msg, record.exc_info[0], *raised_at)


class TextLines(logging.Formatter):
    """A line for a person."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format the record and its traceback, followed by the id of the request."""
        number = request_id.get()
        line = super().format(record)
        return line if number is None else f"{line} [request {number}]"


class JsonLines(logging.Formatter):
    """A JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line, with the traceback in it."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        number = request_id.get()
        if number is not None:
            document["requestId"] = number
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)
