"""Delivery over real HTTP: what receivers do with it, and what becomes of the delivery then."""

import email.utils
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError

from collector.addresses import AddressPolicy
from collector.delivery.deliverer import Deliverer, DeliveryOptions
from collector.delivery.receivers import RequestedWebhook
from collector.delivery.sending import Sender
from storage.alerting.outbox import DeliveryAttempt, Outbox, SwitchOffPolicy
from storage.errors import Overloaded
from tests.alerting import (
    LOOPBACK,
    PATIENT,
    QUICK,
    SECRET,
    Taken,
    a_receiver,
    an_alerting,
    answer,
    as_it_is,
    hang_up,
)
from tests.live import until

pytestmark = pytest.mark.costly(
    "collector/addresses.py", "collector/delivery", "collector/live", "evaluators/chat", "storage/alerting"
)

HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S


def verify(taken: Taken, secret: str) -> dict[str, object]:
    """Verify signature and time with the independent library; return the payload."""
    key: str | bytes = secret if secret.startswith("whsec_") else secret.encode()
    document: dict[str, object] = StandardWebhook(key).verify(taken.body, dict(taken.headers))
    return document


def is_signed(taken: Taken, secret: str) -> bool:
    """Return whether the independent library produces the same signature, however old the request is."""
    at = datetime.fromtimestamp(int(taken.headers["webhook-timestamp"]), UTC)
    signature = StandardWebhook(secret).sign(taken.headers["webhook-id"], at, taken.body.decode())
    return signature in taken.headers["webhook-signature"].split(" ")


def seeds_signature(taken: Taken, secret: str) -> str:
    """Compute the expected `X-Dokimos-Signature`."""
    return hmac.new(secret.encode(), taken.body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("secret", [SECRET, "your-signing-secret", "pässword 1"])
def test_both_signatures_are_those_that_others_compute(tmp_path: Path, secret: str) -> None:
    """An independent library and the seeds' own formula find a delivery good, for a key and for any text."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url, secret=secret)
        alert_id = alerting.open()
        alerting.settled(webhook, "delivered")
        (taken,) = script.taken
        document = verify(taken, secret)
        assert taken.headers["x-dokimos-signature"] == seeds_signature(taken, secret)
        assert document["data"]["alertId"] == alert_id  # type: ignore[index] # of the document
        assert (document["passRateDelta"], document["experimentName"]) == (-0.14, "answers")
        with pytest.raises(WebhookVerificationError):
            verify(taken, "whsec_" + "A" * 32)


def test_without_a_secret_nothing_is_signed(tmp_path: Path) -> None:
    """A receiver without a secret gets the id and the time, and no signature."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.settled(webhook, "delivered")
        headers = script.taken[0].headers
        assert {"webhook-id", "webhook-timestamp"} <= headers.keys()
        assert not {"webhook-signature", "x-dokimos-signature"} & headers.keys()


def test_an_old_secret_is_good_until_the_rotation_is_over(tmp_path: Path) -> None:
    """After a change both secrets verify, the seeds' header has the new one, and a day later the old one is refused."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=DAY_S) as alerting:
        webhook = alerting.webhook(url, secret="the old secret")
        alerting.receivers.replace(webhook, RequestedWebhook(url=None, secret="the new secret"))
        alerting.open(1)
        alerting.settled(webhook, "delivered")
        first = script.taken[0]
        assert len(first.headers["webhook-signature"].split(" ")) == 2
        assert first.headers["x-dokimos-signature"] == seeds_signature(first, "the new secret")
        alerting.forward(DAY_S)
        alerting.open(2)
        alerting.settled(webhook, "delivered", "delivered")
        assert verify(script.taken[1], "the new secret")
        with pytest.raises(WebhookVerificationError):
            verify(script.taken[1], "the old secret")


def test_an_alert_is_told_once_for_each_step_of_its_life(tmp_path: Path) -> None:
    """Opening, acknowledging and recovering are an event each, and doing one of them again is none."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url)
        alert_id = alerting.open()
        alerts, now_ns = alerting.store.alerts, int(alerting.clock() * 1e9)
        assert alerts.acknowledge(alert_id, now_ns, by="Ada")
        assert alerts.recover(alert_id, {"rate": 0.91}, now_ns)
        assert not alerts.acknowledge(alert_id, now_ns)
        assert not alerts.recover(alert_id, {}, now_ns)
        alerting.settled(webhook, "delivered", "delivered", "delivered")
        states = {(document := json.loads(each.body))["type"]: document["data"]["state"] for each in script.taken}
        assert states == {"alert.opened": "open", "alert.acknowledged": "acknowledged", "alert.recovered": "recovered"}
        assert len(set(script.ids)) == 3


def test_a_receiver_gets_what_it_wants_of_its_project(tmp_path: Path) -> None:
    """Events of other kinds and of other projects are not queued for it, and one for all projects gets all."""
    with a_receiver() as (url, _), an_alerting(tmp_path) as alerting:
        one = alerting.webhook(url, events=("alert.opened",))
        every = alerting.receivers.create(None, RequestedWebhook(url=url + "/all", secret=None))
        off = alerting.webhook(url, enabled=False)
        alerting.open(1)
        other = alerting.open(2, project="bank")
        alerting.store.alerts.recover(other, {}, time.time_ns())
        alerting.settled(one, "delivered")
        alerting.settled(every, "delivered", "delivered", "delivered")
        assert alerting.states(off) == []


def answers(*statuses: int) -> Callable[[BaseHTTPRequestHandler, int], None]:
    """Answer with these, and with the last one from then on."""
    return lambda handler, number: answer(handler, statuses[min(number, len(statuses)) - 1])


@pytest.mark.parametrize("first", [500, 503, 599, 408, 429, 302])
def test_what_passes_is_tried_again_with_the_same_id(tmp_path: Path, first: int) -> None:
    """After a failure that may pass, the same event comes again with the same id and body."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = answers(first, 200)
        webhook = alerting.webhook(url, secret=SECRET)
        alerting.open()
        alerting.attempted(webhook, 1)
        alerting.forward(60)
        alerting.settled(webhook, "delivered")
        assert len(set(script.ids)) == 1
        assert len({each.body for each in script.taken}) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 451])
def test_what_cannot_pass_is_not_tried_again(tmp_path: Path, status: int) -> None:
    """An answer that says that the request is wrong ends the delivery, which says so."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = answers(status)
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.settled(webhook, "failed")
        alerting.forward(DAY_S)
        time.sleep(0.2)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert (delivery.last_status, delivery.last_error, len(script.taken)) == (status, f"answered {status}", 1)


def test_gone_switches_the_receiver_off(tmp_path: Path) -> None:
    """After 410 nothing more is sent, waiting deliveries are cancelled, and the receiver has the reason."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = answers(500, 410)
        webhook = alerting.webhook(url)
        alerting.open(1)
        alerting.attempted(webhook, 1)
        alerting.open(2)
        alerting.settled(webhook, "failed", "cancelled")
        alerting.open(3)
        stored = alerting.store.webhooks.get(webhook.webhook_id)
        assert stored is not None
        assert (stored.enabled, stored.disabled_reason) == (False, "it answered 410 Gone")
        assert alerting.states(webhook) == ["cancelled", "failed"]


def test_a_lost_answer_repeats_the_id(tmp_path: Path) -> None:
    """A receiver that takes an event and closes without an answer gets it again under the same id, until it answers."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = lambda handler, number: hang_up(handler, number) if number < 4 else answer(handler, 200)
        webhook = alerting.webhook(url)
        alerting.open()
        for attempts in range(1, 4):
            alerting.attempted(webhook, attempts)
            alerting.forward(HOUR_S)
        alerting.settled(webhook, "delivered")
        assert len(script.ids) == 4
        assert len(set(script.ids)) == 1


def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    """A receiver that asks for an hour is left alone for an hour, whether it says so in seconds or as a date."""
    ways = (lambda: "3600", lambda: email.utils.formatdate(time.time() + HOUR_S, usegmt=True))
    for number, header in enumerate(ways):
        with a_receiver() as (url, script), an_alerting(tmp_path / str(number)) as alerting:
            script.act = lambda handler, at, header=header: answer(  # type: ignore[misc] # a default binds it
                handler, 429 if at == 1 else 200, {"Retry-After": header()}
            )
            webhook = alerting.webhook(url)
            alerting.open()
            alerting.attempted(webhook, 1)
            alerting.forward(HOUR_S - 60)
            time.sleep(0.2)
            assert len(script.taken) == 1
            alerting.forward(62)
            alerting.settled(webhook, "delivered")


def test_a_clock_that_is_set_back_holds_up_no_retry(tmp_path: Path) -> None:
    """A delivery that waits for a retry, or was queued, before the clock was set back by a day is sent at once."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = answers(503)
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        (waiting,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        just_before_ns = (waiting.last_attempt_at_ns or 0) - 1_000_000
        assert alerting.store.outbox.due(just_before_ns, each=4, limit=4) == [], "stored after the clock was read"
        script.act = answers(200)
        alerting.forward(-DAY_S)
        alerting.settled(webhook, "delivered")
        assert len(script.taken) == 2
        assert alerting.store.outbox.due(int((alerting.clock() + 2 * DAY_S) * 1e9), each=4, limit=4) == []


def test_a_clock_that_is_set_forward_gives_up_no_delivery(tmp_path: Path) -> None:
    """Retries come early while the clock is ahead, and go on at once when it is right again."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=2 * DAY_S) as alerting:
        script.act = answers(503)
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        alerting.forward(DAY_S)
        alerting.attempted(webhook, 2)
        alerting.forward(-DAY_S)
        alerting.attempted(webhook, 3)
        script.act = answers(200)
        alerting.forward(DAY_S)
        alerting.settled(webhook, "delivered")


@pytest.mark.costly("collector/delivery", "storage/alerting")
def test_an_hour_of_outage_loses_nothing(tmp_path: Path) -> None:
    """Alerts that were opened while the receiver was down for an hour arrive afterwards, each once, and verify."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=2 * HOUR_S) as alerting:
        script.act = answers(503)
        webhook = alerting.webhook(url, secret=SECRET)
        for number in range(12):
            alerting.open(number)
            alerting.forward(300)
        until(lambda: len(set(script.ids)), lambda count: count == 12)
        welcome: list[str] = []

        def take(handler: BaseHTTPRequestHandler, _: int) -> None:
            welcome.append(str(handler.headers["webhook-id"]))
            answer(handler, 200)

        script.act = take

        def after_another_hour() -> list[str]:  # an attempt under way when the receiver came back fails an hour later
            alerting.forward(HOUR_S)
            return alerting.states(webhook)

        until(after_another_hour, lambda states: states == ["delivered"] * 12)
        assert sorted(welcome) == sorted(set(script.ids))
        assert all(is_signed(each, SECRET) for each in script.taken)


def test_a_day_of_outage_is_given_up_and_can_be_replayed(tmp_path: Path) -> None:
    """After eleven attempts over most of a day a delivery is given up, says so, and arrives when it is replayed."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=3 * DAY_S) as alerting:
        script.act = answers(500)
        webhook = alerting.webhook(url)
        alerting.open()
        started_s = alerting.clock()
        for attempts in range(1, 11):
            alerting.attempted(webhook, attempts)
            (waiting,) = alerting.store.outbox.deliveries(webhook.webhook_id)
            alerting.forward((waiting.next_attempt_at_ns or 0) / 1e9 - alerting.clock() + 0.01)
        alerting.settled(webhook, "failed")
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert delivery.last_error == "answered 500; given up after 11 attempts"
        assert 18 * HOUR_S < (delivery.last_attempt_at_ns or 0) / 1e9 - started_s < 30 * HOUR_S
        script.act = answers(200)
        assert alerting.receivers.replay(webhook, delivery.delivery_id)
        alerting.settled(webhook, "delivered")
        assert len(set(script.ids)) == 1


@pytest.mark.costly("collector/delivery", "storage/alerting")
def test_a_slow_receiver_holds_up_nobody(tmp_path: Path) -> None:
    """While one receiver lets every request hang, another gets thirty events, and the slow one four at a time."""
    let_go = threading.Event()
    with (
        a_receiver() as (slow_url, slow),
        a_receiver() as (url, _),
        an_alerting(tmp_path) as alerting,
    ):

        def hang(handler: BaseHTTPRequestHandler, _: int) -> None:
            let_go.wait(60)
            answer(handler, 200)

        slow.act = hang
        stuck, quick = alerting.webhook(slow_url), alerting.webhook(url)
        for number in range(30):
            alerting.open(number)
        alerting.settled(quick, *["delivered"] * 30)
        assert len(slow.taken) == 4
        assert alerting.states(stuck) == ["pending"] * 30
        let_go.set()
        alerting.settled(stuck, *["delivered"] * 30)


def endless_head(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send headers without an end."""
    handler.send_response(200)
    for number in range(1 << 20):
        handler.wfile.write(f"X-{number}: {'x' * 1000}\r\n".encode())


def dripping_head(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send a status line one character at a time, each sooner than a read times out."""
    for _ in range(100):
        handler.wfile.write(b"H")
        handler.wfile.flush()
        time.sleep(0.3)


def huge_body(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send a gigabyte after a success."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 30))
    handler.end_headers()
    for _ in range(1 << 10):
        handler.wfile.write(b"x" * (1 << 20))


def endless_body(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send a success that never ends."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while True:
        handler.wfile.write(b"1\r\nx\r\n")
        time.sleep(0.05)


def rubbish(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send no HTTP at all."""
    handler.wfile.write(b"\x00\xff" * 1000)


@pytest.mark.parametrize(
    "act, status",
    [(huge_body, 200), (endless_body, 200), (endless_head, None), (dripping_head, None), (rubbish, None)],
)
def test_whatever_is_answered_is_bounded(
    tmp_path: Path, act: Callable[[BaseHTTPRequestHandler, int], None], status: int | None
) -> None:
    """An answer without an end costs its time limit at most, and counts by its status if it had one."""
    with a_receiver() as (url, script), an_alerting(tmp_path, limits=QUICK) as alerting:
        script.act = act
        webhook = alerting.webhook(url)
        started = time.monotonic()
        alerting.open()
        alerting.attempted(webhook, 1)
        assert time.monotonic() - started < 30  # of an answer without an end
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert (delivery.last_status, delivery.state) == (status, "delivered" if status else "pending")


def test_an_attempt_has_all_of_its_time(tmp_path: Path) -> None:
    """An answer after the connect timeout, but within the time limit of an attempt, counts as delivered."""

    def think(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(QUICK.connect_s + 0.3)
        answer(handler, 200)

    with a_receiver() as (url, script), an_alerting(tmp_path, limits=QUICK) as alerting:
        script.act = think
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert (delivery.state, delivery.last_status) == ("delivered", 200)


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    """A redirect, to loopback or elsewhere, is a failed attempt, and its target is never requested."""
    with a_receiver() as (url, script), a_receiver() as (inside, within), an_alerting(tmp_path) as alerting:
        script.act = lambda handler, _: answer(handler, 307, {"Location": inside})
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert (delivery.state, delivery.last_status, within.taken) == ("pending", 307, [])


def test_a_name_at_a_metadata_address_is_refused(tmp_path: Path) -> None:
    """A name that resolves to 169.254.169.254 is not connected to, even if the name is listed as private."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["169.254.169.254"]

    with an_alerting(tmp_path, private_hosts=["hooks.example"], resolve=resolve) as alerting:
        webhook = alerting.webhook("http://hooks.example/x")
        alerting.open()
        alerting.attempted(webhook, 1)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert delivery.last_error == "hooks.example is at a cloud's metadata address, where nothing is ever sent"


def test_a_name_that_changes_its_address_gains_nothing(tmp_path: Path) -> None:
    """The connection goes to the address that was looked at, and the name is asked for once for each connection."""
    requested: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        requested.append(host)
        return ["127.0.0.1"] if len(requested) % 2 else ["10.0.0.1"]

    with a_receiver() as (url, script), an_alerting(tmp_path, resolve=resolve) as alerting:
        port = url.split(":")[2].removesuffix("/hook")
        webhook = alerting.webhook(f"http://changing.example:{port}/hook")
        alerting.open()
        alerting.settled(webhook, "delivered")
        assert requested == ["changing.example"]
        assert script.taken[0].headers["host"] == f"changing.example:{port}"


def test_the_next_address_is_tried_where_one_is_silent(tmp_path: Path) -> None:
    """Of a name with several addresses, those that may not or do not take a connection cost their share of the time."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["169.254.169.254", "127.0.0.2", "127.0.0.1"]

    with a_receiver() as (url, script), an_alerting(tmp_path, resolve=resolve) as alerting:  # listens on 127.0.0.1 only
        webhook = alerting.webhook(f"http://hooks.example:{url.split(':')[2]}")
        alerting.open()
        alerting.settled(webhook, "delivered")
        assert len(script.taken) == 1


def test_what_is_no_http_is_not_quoted(tmp_path: Path) -> None:
    """The error does not reveal to the owner of a URL what answers there."""

    def banner(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.wfile.write(b"220 internal mail server\r\n\r\n")

    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = banner
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.attempted(webhook, 1)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert delivery.last_error == "no HTTP answer: RemoteProtocolError"


def test_loopback_is_refused_unless_it_is_listed(tmp_path: Path) -> None:
    """A name that stands for this machine is not connected to, and nothing arrives."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1", "::1"]

    with a_receiver() as (url, script), an_alerting(tmp_path, private_hosts=(), resolve=resolve) as alerting:
        webhook = alerting.webhook(f"https://hooks.example:{url.split(':')[2]}")
        alerting.open()
        alerting.attempted(webhook, 1)
        (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert "private address and is not listed" in str(delivery.last_error)
        assert script.taken == []


def test_proxies_of_the_environment_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment names as a proxy, the request goes to the receiver itself."""
    with a_receiver() as (proxy, seen), a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        webhook = alerting.webhook(url)
        alerting.open()
        alerting.settled(webhook, "delivered")
        assert (len(script.taken), seen.taken) == (1, [])


def test_lasting_failure_switches_a_receiver_off(tmp_path: Path) -> None:
    """A receiver that fails for days is switched off with the reason, and a success in between begins anew."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=30 * DAY_S) as alerting:
        script.act = answers(400)
        webhook = alerting.webhook(url)
        alerting.open(1)
        alerting.settled(webhook, "failed")
        alerting.forward(2 * DAY_S)
        script.act = answers(200)
        alerting.open(2)
        alerting.settled(webhook, "failed", "delivered")
        script.act = answers(400)
        for number, days in ((3, 2), (4, 2)):
            alerting.forward(days * DAY_S)
            alerting.open(number)
            until(lambda: alerting.states(webhook), lambda states: "pending" not in states)
        stored = alerting.store.webhooks.get(webhook.webhook_id)
        assert stored is not None
        assert stored.enabled
        alerting.forward(2 * DAY_S)
        alerting.open(5)
        until(lambda: alerting.states(webhook), lambda states: "pending" not in states)
        stored = alerting.store.webhooks.get(webhook.webhook_id)
        assert stored is not None
        assert (stored.enabled, stored.disabled_reason) == (
            False,
            "nothing but failures for 3 days; the last one: answered 400",
        )


def test_many_failed_deliveries_switch_a_receiver_off(tmp_path: Path) -> None:
    """The twentieth delivery that is given up in a row is the last one."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        script.act = answers(404)
        webhook = alerting.webhook(url)
        for number in range(SwitchOffPolicy().failed_deliveries):
            alerting.open(number)
        until(lambda: alerting.states(webhook), lambda states: "pending" not in states)
        stored = alerting.store.webhooks.get(webhook.webhook_id)
        assert stored is not None
        assert not stored.enabled
        assert str(stored.disabled_reason).startswith("20 deliveries failed one after another")


def test_a_test_reaches_a_receiver_that_is_off_and_changes_nothing(tmp_path: Path) -> None:
    """A test is sent whatever the receiver wants, and its failure is not held against the receiver."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url, enabled=False, events=("alert.opened",), secret=SECRET)
        assert alerting.receivers.test(webhook)
        alerting.settled(webhook, "delivered")
        assert verify(script.taken[0], SECRET)["type"] == "webhook.test"
        script.act = answers(410)
        assert alerting.receivers.test(webhook)
        alerting.settled(webhook, "delivered", "failed")
        stored = alerting.store.webhooks.get(webhook.webhook_id)
        assert stored is not None
        assert (stored.failures, stored.disabled_reason) == (0, None)


def test_what_was_delivered_long_ago_is_forgotten(tmp_path: Path) -> None:
    """Finished deliveries are gone after 90 days, and the alert stays."""
    with a_receiver() as (url, _), an_alerting(tmp_path, behind_s=100 * DAY_S) as alerting:
        webhook = alerting.webhook(url)
        alert_id = alerting.open()
        alerting.settled(webhook, "delivered")
        alerting.forward(91 * DAY_S)
        alerting.settled(webhook)
        assert alerting.store.alerts.get(alert_id) is not None


def test_stopping_does_not_wait_for_a_receiver(tmp_path: Path) -> None:
    """A deliverer that is stopped while a receiver hangs stops at once, and the delivery stays pending."""
    let_go = threading.Event()

    def hang(_handler: BaseHTTPRequestHandler, _: int) -> None:
        let_go.wait(60)

    with a_receiver() as (url, script):
        script.act = hang
        with an_alerting(tmp_path) as alerting:
            webhook = alerting.webhook(url)
            alerting.open()
            until(lambda: len(script.taken), lambda count: count == 1)
            started = time.monotonic()
            alerting.deliverer.close()
            assert time.monotonic() - started < 30  # of the 60 that it hangs
            assert alerting.states(webhook) == ["pending"]
        let_go.set()


class Unwilling(Outbox):
    """An outbox whose database cannot be written for the first few times that outcomes are to be recorded."""

    refusals = 3

    def record(self, attempts: Sequence[DeliveryAttempt], policy: SwitchOffPolicy) -> None:
        """Refuse the first `refusals` records."""
        if self.refusals:
            self.refusals -= 1
            raise Overloaded("the disk is full")
        super().record(attempts, policy)


def test_what_cannot_be_recorded_is_not_sent_again(tmp_path: Path) -> None:
    """While outcomes cannot be stored they are kept, and the receiver gets nothing twice."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        store = alerting.store
        alerting.deliverer.close()
        webhook = alerting.webhook(url)
        outbox = Unwilling(store._database, store._writer, store.aging)
        sender = Sender(AddressPolicy(LOOPBACK), as_it_is, limits=PATIENT)
        options = DeliveryOptions(look_again_s=0.02, record_again_s=0.05)
        deliverer = Deliverer(outbox, alerting.receivers, sender, options=options)
        deliverer.start()
        for number in range(5):
            alerting.open(number)
        alerting.settled(webhook, *["delivered"] * 5)
        deliverer.close()
        assert (outbox.refusals, len(script.ids), len(set(script.ids))) == (0, 5, 5)


def test_a_key_that_was_lost_holds_deliveries_up_and_loses_none(tmp_path: Path) -> None:
    """With another key nothing is sent and the delivery says why; with the right one again it arrives, signed."""
    with a_receiver() as (url, script):
        with an_alerting(tmp_path) as alerting:
            webhook = alerting.webhook(url, secret=SECRET)
        with an_alerting(tmp_path, encryption_key="quite another passphrase") as alerting:
            alerting.open()
            alerting.attempted(webhook, 1)
            (delivery,) = alerting.store.outbox.deliveries(webhook.webhook_id)
            assert delivery.state == "pending"
            assert "TRACEJURY_ENCRYPTION_KEY is not the key" in str(delivery.last_error)
            assert script.taken == []
        with an_alerting(tmp_path) as alerting:
            alerting.forward(60)
            alerting.settled(webhook, "delivered")
        assert is_signed(script.taken[0], SECRET)
