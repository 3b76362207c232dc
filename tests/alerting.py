"""Shared parts of the tests of alerts and webhooks: findings, a manual clock, and a scripted receiver."""

import dataclasses
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from collector.addresses import AddressPolicy
from collector.delivery.deliverer import Deliverer, DeliveryOptions
from collector.delivery.receivers import Receivers, RequestedWebhook
from collector.delivery.sending import Resolve, Sender, TimeLimits
from collector.secrets import Secrets
from collector.self_tracing import Watch
from storage.alerting.alerts import AlertFinding, ComparedSide
from storage.alerting.webhooks import Webhook
from storage.store import Store
from tests.live import until
from tests.storing import a_store

LOOPBACK = ("127.0.0.0/8",)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ENCRYPTION_KEY = "0123456789abcdef" * 4  # no passphrase, of which a key is derived with scrypt: 80 ms a secret
QUICK = TimeLimits(connect_s=0.5, total_s=3)
PATIENT = TimeLimits(connect_s=60, total_s=60)
"""On a machine that is busy otherwise, an attempt that was cut off would be one more."""


def a_finding(number: int = 0, **changes: Any) -> AlertFinding:
    """Build a drop from 92 to 78 %."""
    finding = AlertFinding(
        tenant="",
        episode=f"shop/answers/1.5.0/{number}",
        project="shop",
        rule_id="6f1ed002ab5595859014ebf0951522d9",
        rule="answers",
        revision=3,
        kind="release",
        evaluator="Helpfulness",
        fingerprint="0b1c2d3e4f5a",
        measure="passed",
        baseline=ComparedSide(release="1.4.1", rate=0.92, low=0.8914, high=0.9427, count=500),
        candidate=ComparedSide(release="1.5.0", rate=0.78, low=0.6812, high=0.8601, count=91),
        regressed_count=20,
        evidence=24.31,
        evidence_threshold=20.0,
        document={
            "examples": [
                {
                    "traceId": "f8d18f56aac69da52ff48aa312bf2c4d",
                    "spanId": None,
                    "score": 0.1,
                    "reason": "It <@U1> & did",
                },
                {"traceId": "cc517eb1e9d1e6602882cbd9b05e0821", "spanId": None, "score": 0.2, "reason": None},
            ],
            "sql": "SELECT release, avg(passed::INT) FROM evaluations GROUP BY ALL",
        },
    )
    return dataclasses.replace(finding, **changes)


class Clock:
    """A running clock that tests can move forward."""

    def __init__(self, *, behind_s: float = 0) -> None:
        self._offset_s = -behind_s

    def __call__(self) -> float:
        """Return seconds since the Unix epoch."""
        return time.time() + self._offset_s

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self._offset_s += seconds


@dataclass(frozen=True, slots=True)
class Taken:
    """A received request."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(slots=True)
class Script:
    """The behavior of a receiver, and the requests that it got."""

    taken: list[Taken] = field(default_factory=list)
    act: Callable[[BaseHTTPRequestHandler, int], None] = lambda handler, _: answer(handler, 204)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the received requests, in their order."""
        return [each.headers["webhook-id"] for each in self.taken]


def answer(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str] | None = None) -> None:
    """Answer without a body."""
    handler.send_response(status)
    for name, value in {"Content-Length": "0", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()


def hang_up(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Take the request, and close without a word."""
    handler.close_connection = True
    with suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def a_receiver() -> Iterator[tuple[str, Script]]:
    """Yield the URL of a real HTTP server in threads of its own, and its script; the number is that of the request."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # the sender was killed in the middle of it, so that nothing has arrived
                return
            names = {name.lower(): value for name, value in self.headers.items()}
            script.taken.append(Taken(self.path, names, body))
            with suppress(OSError):
                script.act(self, len(script.taken))

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", script
        finally:
            server.shutdown()
            thread.join()


async def as_it_is(host: str, _port: int) -> Sequence[str]:
    """Return a resolver for addresses."""
    return [host]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """A store with the alert delivery, run by a manual clock."""

    store: Store
    receivers: Receivers
    deliverer: Deliverer
    clock: Clock

    def webhook(self, url: str, **requested: Any) -> Webhook:
        """Create a receiver of the project shop."""
        return self.receivers.create("shop", RequestedWebhook(**{"url": url, "secret": None} | requested))

    def open(self, number: int = 0, **changes: Any) -> str:
        """Open an alert; its id."""
        finding = a_finding(number, **changes)
        assert self.store.alerts.open(finding, int(self.clock() * 1e9))
        return finding.alert_id

    def states(self, webhook: Webhook) -> list[str]:
        """Return the states of all deliveries to a receiver, in order."""
        return sorted(each.state for each in self.store.outbox.deliveries(webhook.webhook_id, limit=10_000))

    def settled(self, webhook: Webhook, *expected: str) -> None:
        """Wait until the deliveries are in these states."""
        until(lambda: self.states(webhook), lambda states: states == sorted(expected))

    def attempted(self, webhook: Webhook, attempts: int) -> None:
        """Wait until `attempts` attempts of the only delivery are on record."""
        look = self.store.outbox.deliveries
        until(lambda: look(webhook.webhook_id)[0].attempts, lambda seen: seen == attempts)

    def forward(self, seconds: float) -> None:
        """Let time pass for the deliverer."""
        self.clock.forward(seconds)
        self.deliverer.wake()


@contextmanager
def an_alerting(
    directory: Path,
    *,
    private_hosts: Sequence[str] = LOOPBACK,
    resolve: Resolve = as_it_is,
    behind_s: float = 0,
    limits: TimeLimits = PATIENT,
    encryption_key: str = ENCRYPTION_KEY,
    watch: Watch | None = None,
) -> Iterator[Alerting]:
    """Start all of it."""
    clock = Clock(behind_s=behind_s)
    policy = AddressPolicy(private_hosts)
    with a_store(directory) as store:
        receivers = Receivers(
            store.webhooks, store.outbox, policy, secrets=Secrets(encryption_key), rotation_s=86_400, clock=clock
        )
        sender = Sender(policy, resolve, limits=limits, clock=clock)
        options = DeliveryOptions(look_again_s=0.05, grace_s=0.2, watch=watch)
        deliverer = Deliverer(store.outbox, receivers, sender, clock=clock, source=random.Random(1), options=options)
        deliverer.start()
        try:
            yield Alerting(store=store, receivers=receivers, deliverer=deliverer, clock=clock)
        finally:
            deliverer.close()
