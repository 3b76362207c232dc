"""Functions as judges: the program asks an endpoint of this process, which calls them."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tracejury.plain import contained, error_text
from tracejury.score import named

JudgeFunction = Callable[[str], Any]
"""Function or coroutine function that takes a prompt and returns the reply."""

_LIMIT_S: Final = 600  # timeout of one call; a guess
_REFUSED: Final = 400  # no other attempt: the function failed, not the connection


def with_judges(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with endpoints in place of functions as judges; a list of them is a jury."""
    judge = config.get("judge")
    if isinstance(judge, (list, tuple)):
        return {**config, "judge": [_endpoints().settings(each) if callable(each) else each for each in judge]}
    return dict(config) if not callable(judge) else {**config, "judge": _endpoints().settings(judge)}


def calls_functions(config: Mapping[str, Any]) -> bool:
    """Return whether a judge is a function."""
    judge = config.get("judge")
    return any(map(callable, judge if isinstance(judge, (list, tuple)) else [judge]))


class _Endpoints:
    """An HTTP server on this machine with a path for each function. Coroutines run in one event loop."""

    def __init__(self) -> None:
        self.functions: list[JudgeFunction] = []
        self._loop = asyncio.new_event_loop()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        for run, name in (
            (self._loop.run_forever, "tracejury-judge-loop"),
            (self._server.serve_forever, "tracejury-judge"),
        ):
            threading.Thread(target=run, name=name, daemon=True).start()

    def settings(self, function: JudgeFunction) -> dict[str, Any]:
        """Return the judge settings for a function. Its name and version are the model, which fingerprints include."""
        if function not in self.functions:
            self.functions.append(function)
        of = named(function)
        return {
            "baseUrl": f"http://127.0.0.1:{self._server.server_port}/{self.functions.index(function)}/v1",
            "model": of.name if of.version is None else f"{of.name}@{of.version}",
            "protocol": "CHAT_COMPLETIONS",
            "timeLimitSeconds": _LIMIT_S,
            "attempts": 1,
        }

    def reply(self, path: str, prompt: str) -> str:
        """Return the reply of the function at a path.

        Raises:
            TypeError: the reply is not text.
        """
        with contained():
            reply = self.functions[int(path.split("/")[1])](prompt)
        if inspect.isawaitable(reply):
            reply = asyncio.run_coroutine_threadsafe(_awaited(reply), self._loop).result(_LIMIT_S)
        if not isinstance(reply, str):
            raise TypeError(f"a judge returns a text, not {type(reply).__name__}")
        return reply


async def _awaited(pending: Any) -> Any:
    with contained():
        return await pending


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            text = _endpoints().reply(self.path, _prompt(body))
        except Exception as error:  # noqa: BLE001 - a judge that raises is a failed evaluation
            self._answer(_REFUSED, {"error": {"message": error_text(error), "type": "judge_function"}})
            return
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        self._answer(
            200, {"id": "judge", "object": "chat.completion", "created": 0, "model": body["model"], "choices": choices}
        )

    def _answer(self, status: int, document: Mapping[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):  # a reply that is too long is not read to its end
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
        """Log nothing."""


def _prompt(body: Mapping[str, Any]) -> str:
    """Return all messages of a request as one text, and the form of the reply."""
    texts = [_text(message["content"]) for message in body["messages"]]
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema is not None:
        texts.append(f"Reply with JSON of this schema only:\n{json.dumps(schema)}")
    return "\n\n".join(texts)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


@lru_cache(maxsize=1)
def _endpoints() -> _Endpoints:
    return _Endpoints()
