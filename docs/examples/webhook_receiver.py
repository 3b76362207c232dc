"""A receiver of webhooks that checks their signatures, and prints one line for each event.

Run it with the secret in HOOK_SECRET: python docs/examples/webhook_receiver.py [9009]
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def event_of(body: bytes, headers: Message, secret: str) -> Any:  # noqa: ANN401 - JSON
    """Return the event; raise ValueError if it is not ours, or older than five minutes."""
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    is_ours = any(hmac.compare_digest(expected, each) for each in headers["webhook-signature"].split(" "))
    if not is_ours or abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        raise ValueError("not ours, or too old")
    return json.loads(body)


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to what is signed, and 401 to all else."""

    def do_POST(self) -> None:
        """Take an event."""
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = event_of(body, self.headers, os.environ["HOOK_SECRET"])
        except (ValueError, AttributeError, TypeError):  # also of a header that is missing
            print("refused: not ours, or too old", flush=True)
            self.send_response(401)
        else:
            line = (event.get("data") or {}).get("line")
            print(event["type"] + (f": {line}" if line else ""), flush=True)
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing of requests."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9009), Receiver)
    print(f"listening at http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
