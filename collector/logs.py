"""How the server's own log is written: lines of text or of JSON, each with the number of the request it is about."""

import json
import logging
import re
import sys
import traceback
from collections import Counter
from contextvars import ContextVar
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

_EVERY_S: Final = 60.0
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

request_id: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""The number of the request that is being answered, if any."""


def request_id_of(header: str | None) -> str:
    """Return the `X-Request-Id` of a request if it is harmless, else a new one."""
    return header if header and _REQUEST_ID.fullmatch(header) else token_hex(8)


def start_logging(*, level: str, form: str) -> None:
    """Log to standard error from now on; `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(RepeatedFailures())
    logging.basicConfig(handlers=[handler], level=level.upper())
    if level.upper() == "INFO":  # it has a line for each request
        logging.getLogger("mcp.server.streamable_http").setLevel(logging.WARNING)


class RepeatedFailures(logging.Filter):
    """Passes a failure that is logged with its traceback once a minute, so that what is tried again fills no disk.

    The same failure is an exception of the same type from the same line. Those of requests all pass: their answers
    refer to the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed_s: dict[object, float] = {}
        self._left_out: Counter[object] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged, with the number of those that were left out before it."""
        if not record.exc_info or record.exc_info[0] is None or request_id.get() is not None:
            return True
        raised_at = [frame.f_code.co_filename + str(line) for frame, line in traceback.walk_tb(record.exc_info[2])][-1:]
        failure = (record.name, record.msg, record.exc_info[0], *raised_at)
        if record.created - self._passed_s.get(failure, -_EVERY_S) < _EVERY_S:
            self._left_out[failure] += 1
            return False
        self._passed_s[failure] = record.created
        left_out = self._left_out.pop(failure, 0)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out:,} more since the last such line)"
            record.args = ()
        return True


class TextLines(logging.Formatter):
    """A line for a person."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the trace of what was raised below it."""
        number = request_id.get()
        line = super().format(record)
        return line if number is None else f"{line} [request {number}]"


class JsonLines(logging.Formatter):
    """A JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the trace of what was raised in it."""
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
