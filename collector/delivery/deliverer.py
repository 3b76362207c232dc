"""The thread that sends the deliveries of the outbox, many at the same time."""

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from collector.delivery.receivers import BadWebhook, Receivers
from collector.delivery.sending import DeliveryResponse, Sender, judge
from collector.delivery.signing import signature_headers
from collector.delivery.templates import render, telling_of
from collector.follower import WaitLog
from collector.self_tracing import FinishedWork, Value, Watch
from storage.alerting.outbox import DeliveryAttempt, DueDelivery, Outbox, SwitchOffPolicy
from storage.errors import Overloaded

log = logging.getLogger(__name__)

_NS = 10**9
_DAY_S = 86_400
_KEPT_S = 90 * _DAY_S
"""Retention of finished deliveries. A guess: longer than an alert is of interest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """Limits and waits of deliveries. All are guesses."""

    at_once: int = 128
    at_once_each: int = 4  # for each receiver
    look_again_s: float = 5  # longest pause between checks of the outbox without a notification
    grace_s: float = 2  # for attempts under way when stopping
    watch: Watch | None = None  # called with each attempt
    record_again_s: float = 1
    switch_off_policy: SwitchOffPolicy = field(default_factory=SwitchOffPolicy)


class Deliverer:
    """Sender of due deliveries, from `start` until `close`.

    A delivery stays pending until its outcome is stored. If the server stops before, it is sent again with the same id.
    """

    def __init__(
        self,
        outbox: Outbox,
        receivers: Receivers,
        sender: Sender,
        *,
        clock: Callable[[], float] = time.time,
        source: random.Random | None = None,
        options: DeliveryOptions | None = None,
    ) -> None:
        self._outbox = outbox
        self._receivers = receivers
        self._sender = sender
        self._clock = clock
        self._source = source or random.SystemRandom()
        self._options = options or DeliveryOptions()
        self._under_way: dict[str, DueDelivery] = {}  # being sent, or sent and not yet recorded
        self._recorded: set[str] = set()  # since the last query began, which may still return them as due
        self._attempts: set[asyncio.Task[None]] = set()
        self._outcomes: list[DeliveryAttempt] = []
        self._stopping = False
        self._waits = WaitLog(log, "outcomes of deliveries are not stored yet: %s")
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._woken = asyncio.Event()
        self._recordable = asyncio.Event()
        self._pruned_at_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Start, beginning with the deliveries that are due."""
        self._outbox.listen(self.wake)
        self._thread.start()

    def wake(self) -> None:
        """Check for due deliveries. Callable from any thread, also before the start and after the end."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it was closed meanwhile
                self._loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """Stop. Attempts under way get `grace_s` to end; deliveries that are cut off stay pending."""
        self._stopping = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._deliver())

    async def _deliver(self) -> None:
        self._loop = asyncio.get_running_loop()
        recorder = asyncio.create_task(self._record())
        while not self._stopping:
            self._woken.clear()
            pause_s = await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause_s)
        if self._attempts:
            await asyncio.wait(self._attempts, timeout=self._options.grace_s)
        for attempt in self._attempts:
            attempt.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        self._recordable.set()
        await recorder

    async def _look(self) -> float:
        """Begin the due deliveries; return how long to wait for more, in seconds."""
        self._recorded.clear()
        try:
            due, next_ns = await asyncio.to_thread(self._due)
        except Exception:  # noqa: BLE001 - the top of the thread: the next check reads again
            log.warning("cannot read due webhook deliveries; will retry", exc_info=True)
            return self._options.look_again_s
        busy = Counter(each.webhook_id for each in self._under_way.values())
        for each in due:
            fits = busy[each.webhook_id] < self._options.at_once_each
            if fits and each.delivery_id not in self._under_way.keys() | self._recorded:
                busy[each.webhook_id] += 1
                self._under_way[each.delivery_id] = each
                task = asyncio.create_task(self._attempt(each))
                self._attempts.add(task)
                task.add_done_callback(self._attempts.discard)
        left_s = self._options.look_again_s if next_ns is None else next_ns / _NS - self._clock()
        return min(max(left_s, 0.0), self._options.look_again_s)

    def _due(self) -> tuple[list[DueDelivery], int | None]:
        """Return the deliveries that are due, and when the next one will be."""
        now_s = self._clock()
        if now_s - self._pruned_at_s > _DAY_S:
            with suppress(Overloaded):
                self._outbox.prune(int((now_s - _KEPT_S) * _NS))
                self._pruned_at_s = now_s
        now_ns = int(now_s * _NS)
        with suppress(Overloaded):  # it is tried again at the next check
            self._outbox.gather(now_ns)
        due = self._outbox.due(now_ns, each=self._options.at_once_each, limit=self._options.at_once)
        return due, self._outbox.next_due_ns(now_ns)

    async def _attempt(self, due: DueDelivery) -> None:
        """Make one attempt, and store its result."""
        began_ns = int(self._clock() * _NS)
        try:
            answer = await self._answer(due)
        except Exception:  # noqa: BLE001 - the top of the task: the delivery is tried again, and reported as failing
            log.exception("delivery %s could not be attempted", due.delivery_id)
            answer = DeliveryResponse(error="internal error; the server's log has it")
        if answer is None:  # the receiver was deleted, and its deliveries with it
            del self._under_way[due.delivery_id]
            return
        verdict = judge(answer, attempts=due.attempts + 1, source=self._source)
        now_s = self._clock()
        outcome = DeliveryAttempt(
            delivery_id=due.delivery_id,
            webhook_id=due.webhook_id,
            type=due.type,
            replays=due.replays,
            state=verdict.state,
            at_ns=int(now_s * _NS),
            next_at_ns=int((now_s + verdict.delay_s) * _NS),
            status=answer.status,
            error=verdict.error,
            disable=verdict.disable,
        )
        self._outcomes.append(outcome)
        self._recordable.set()
        if self._options.watch is not None:
            self._options.watch(_attempted(due, outcome, began_ns))

    async def _answer(self, due: DueDelivery) -> DeliveryResponse | None:
        try:
            receiver = await asyncio.to_thread(self._receivers.receiver, due.webhook_id)
        except BadWebhook as error:
            return DeliveryResponse(error=str(error))
        if receiver is None:
            return None
        secret = receiver.secrets[0] if receiver.secrets else None
        body = render(receiver.template, telling_of(due, project=receiver.project, secret=secret))
        headers = {"Content-Type": "application/json", "User-Agent": "tracejury"}
        headers |= signature_headers(
            body, event_id=due.event_id, timestamp_s=int(self._clock()), secrets=receiver.signing_secrets
        )
        return await self._sender.post(receiver.url, body, headers)

    async def _record(self) -> None:
        """Store outcomes in batches as they arrive, until the sender has stopped."""
        while not (self._stopping and not self._attempts and not self._outcomes):
            await self._recordable.wait()
            self._recordable.clear()
            while self._outcomes:
                some, self._outcomes = self._outcomes, []
                if await self._store(some):
                    for outcome in some:
                        self._recorded.add(outcome.delivery_id)
                        del self._under_way[outcome.delivery_id]
                    self._woken.set()
                elif self._stopping:
                    return
                else:
                    self._outcomes = some + self._outcomes
                    await asyncio.sleep(self._options.record_again_s)

    async def _store(self, outcomes: list[DeliveryAttempt]) -> bool:
        """Store outcomes; return False if that failed and has to be retried."""
        try:
            await asyncio.to_thread(self._outbox.record, outcomes, self._options.switch_off_policy)
        except Overloaded as error:
            self._waits.note(error)
            return False
        except Exception:  # noqa: BLE001 - the top of the task: without it nothing would be recorded any more
            log.exception("cannot store the outcomes of %d deliveries", len(outcomes))
            return False
        self._waits.end()
        return True


def _attempted(due: DueDelivery, outcome: DeliveryAttempt, began_ns: int) -> FinishedWork:
    """Return an attempt as finished work, for the server's own traces; without its URL, which is secret."""
    attributes: dict[str, Value | None] = {
        "tracejury.delivery_id": due.delivery_id,
        "tracejury.event": due.type,
        "tracejury.attempt": due.attempts + 1,
        "tracejury.state": outcome.state,
        "http.response.status_code": outcome.status,
    }
    failed = None if outcome.state == "delivered" else "not delivered"
    return FinishedWork(name="deliver webhook", began_ns=began_ns, kind="client", failed=failed, attributes=attributes)
