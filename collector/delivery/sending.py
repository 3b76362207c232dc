"""One delivery attempt: a POST over a new connection, to a checked address, within time limits."""

import asyncio
import datetime as dt
import email.utils
import ipaddress
import random
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeAlias

import httpcore
import httpx

from collector.addresses import Address, AddressPolicy
from evaluators.chat.urls import BadUrl
from storage.records import DeliveryState

_DELAYS_S = (10, 30, 2 * 60, 10 * 60, 30 * 60, 3_600, 2 * 3_600, 4 * 3_600, 6 * 3_600, 10 * 3_600)
"""Delays between attempts, 23.7 h in all. A guess: the first three outlast a restart, the last a night's outage."""
_SPREAD = 0.2
"""Random spread of the delays, so that deliveries that failed together are not retried together. A guess."""
_LONGEST_REQUESTED_S = 24 * 3_600
"""A receiver that requests a longer pause than a day gets the next attempt after a day."""
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

MOST_ATTEMPTS = len(_DELAYS_S) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResponse:
    """Result of an attempt. `status` is None without a response."""

    status: int | None = None
    error: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """The next step. `disable` is the reason to send no more to the receiver."""

    state: DeliveryState
    delay_s: float = 0
    error: str | None = None
    disable: str | None = None


def judge(answer: DeliveryResponse, *, attempts: int, source: random.Random) -> RetryDecision:
    """Decide what follows from the response to attempt number `attempts`."""
    status = answer.status
    if status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return RetryDecision(state="delivered")
    error = answer.error or f"answered {status}"
    if status == HTTPStatus.GONE:
        return RetryDecision(state="failed", error=error, disable="it answered 410 Gone")
    if status is not None and _is_final(status):
        return RetryDecision(state="failed", error=error)
    if attempts >= MOST_ATTEMPTS:
        return RetryDecision(state="failed", error=f"{error}; given up after {attempts} attempts")
    delay_s = _DELAYS_S[attempts - 1] * source.uniform(1 - _SPREAD, 1 + _SPREAD)
    requested_s = min(answer.retry_after_s or 0, _LONGEST_REQUESTED_S)
    return RetryDecision(state="pending", delay_s=max(delay_s, requested_s), error=error)


def _is_final(status: int) -> bool:
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LATER


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function that returns a host's addresses as `getaddrinfo` writes them. Raises OSError if there are none."""

_MOST_ADDRESSES = 4
"""Addresses of one host that are tried, one after the other. A guess."""

_MOST_DIGITS = 9
_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that an attempt may take. Guesses."""

    connect_s: float = 5
    total_s: float = 15


class _Refused(httpcore.ConnectError):
    """Refusal of a host without an allowed address."""


class Sender:
    """HTTP client that follows no redirects, uses no proxy, and reads only the head of a response."""

    def __init__(
        self,
        policy: AddressPolicy,
        resolve: Resolve,
        *,
        clock: Callable[[], float] = time.time,
        limits: TimeLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._clock = clock
        self._limits = limits or TimeLimits()
        self._tls = tls

    async def post(self, url_text: str, body: bytes, headers: Mapping[str, str]) -> DeliveryResponse:
        """POST a body and return the result; errors are results too."""
        try:
            url = self._policy.check(url_text)
        except BadUrl as error:
            return DeliveryResponse(error=str(error))
        try:
            async with asyncio.timeout(self._limits.total_s):
                return await self._post(url, body, headers)
        except TimeoutError:
            return DeliveryResponse(error=f"no answer within {self._limits.total_s:g} s")
        except httpcore.TimeoutException as error:
            return DeliveryResponse(error=f"too slow: {type(error).__name__}")
        except _Refused as error:
            return DeliveryResponse(error=str(error))
        except (
            httpcore.ProtocolError
        ) as error:  # its text may quote the response, which users who see the error must not read
            return DeliveryResponse(error=f"no HTTP answer: {type(error).__name__}")
        except (httpcore.NetworkError, OSError) as error:
            return DeliveryResponse(error=f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])

    async def _post(self, url: httpx.URL, body: bytes, headers: Mapping[str, str]) -> DeliveryResponse:
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        timeout = {"connect": self._limits.connect_s}  # `total_s` bounds the whole attempt
        sent = {"Host": url.netloc.decode("ascii"), "Content-Length": str(len(body)), "Connection": "close", **headers}
        pool = httpcore.AsyncConnectionPool(
            ssl_context=await self._trust() if url.scheme == "https" else None,
            max_keepalive_connections=0,
            network_backend=_CheckedNetwork(url, self._policy, self._resolve),
        )
        async with (
            pool,
            pool.stream(
                "POST", target, headers=list(sent.items()), content=body, extensions={"timeout": timeout}
            ) as response,
        ):
            named = {name.lower(): value for name, value in response.headers}
            retry_after = named.get(b"retry-after", b"").decode("latin-1")
            now = dt.datetime.fromtimestamp(self._clock(), dt.UTC)
            return DeliveryResponse(status=response.status, retry_after_s=retry_after_s(retry_after, now))

    async def _trust(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(httpcore.default_ssl_context)
        return self._tls


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Network that connects to checked addresses only.

    A name can resolve to other addresses the next time. So it is resolved once, and the connection goes to the address
    that was checked; TLS still verifies the certificate of the name.
    """

    def __init__(self, url: httpx.URL, policy: AddressPolicy, resolve: Resolve) -> None:
        self._url = url
        self._policy = policy
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = [ipaddress.ip_address(text) for text in await self._resolve(host.strip("[]"), port)]
                refusals = {each: self._policy.refusal(self._url, each) for each in addresses[:_MOST_ADDRESSES]}
                allowed = [each for each, refusal in refusals.items() if refusal is None]
                if not allowed:
                    raise _Refused(next(iter(refusals.values()), None) or f"{host} has no address")
                each_s = None if timeout is None else timeout / len(allowed)
                return await self._connect_first(allowed, port, each_s, local_address, socket_options)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def _connect_first(
        self,
        addresses: Sequence[Address],
        port: int,
        *options: Any,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = addresses
        for address in others:
            with suppress(httpcore.NetworkError, httpcore.ConnectTimeout):
                return await self._network.connect_tcp(str(address), port, *options)
        return await self._network.connect_tcp(str(last), port, *options)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


def retry_after_s(text: str, now: dt.datetime) -> float | None:
    """Parse a `Retry-After`, seconds or a date; return the seconds to wait, or None if it is neither."""
    if text.isascii() and text.isdecimal():
        return float(text[:_MOST_DIGITS])
    try:
        until = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=dt.UTC)
    return max((until - now).total_seconds(), 0.0)


class SystemResolver:
    """Resolver of the system, in threads of its own: names that time out do not delay others."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host."""
        lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        entries = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        return list(dict.fromkeys(str(address[0]) for *_, address in entries))

    def close(self) -> None:
        """Cancel the waiting look-ups, and start no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
