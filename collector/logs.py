"""How the server's own log is written: lines of text or of JSON, each with the number of the request it is about."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

request_id: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""The number of the request that is being answered, if any."""


def start_logging(*, level: str, form: str) -> None:
    """Log to standard error from now on; `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=level.upper())
    if level.upper() == "INFO":  # it has a line for each request
        logging.getLogger("mcp.server.streamable_http").setLevel(logging.WARNING)


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
