"""Delivery of items of a run to the server: in batches, with retries, each stored once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import httpx

from collector.api_calls import error_of
from collector.escaping import one_line
from collector.unanswered import no_answer_text
from storage.backoff import backoff_s

_BATCH_ITEMS: Final = 500
_BATCH_BYTES: Final = 4 << 20  # half of what a request may hold
_GATHER_S: Final = 0.5
_GIVES_UP_AFTER_S: Final = 120.0
"""How long a batch is retried. A guess: longer than a restart of a server with a long spool takes."""

_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 10.0
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

Document = Mapping[str, Any]


class Undelivered(Exception):
    """The server does not accept items; the message says why."""


async def deliver(
    client: httpx.AsyncClient, place: str, items: AsyncIterator[Document], advance: Callable[[], None]
) -> int:
    """Send items in batches; return their number. Retries store nothing twice.

    Raises:
        Undelivered: the server refuses items, or every attempt within two minutes fails.
    """
    count = 0
    batch: list[Document] = []
    size, since_s = 0, time.monotonic()
    async for item, at_once in _looking_up(items):
        if item is not None:
            batch.append(item)
            size += len(json.dumps(item))
            count += 1
            advance()
        is_due = at_once or len(batch) >= _BATCH_ITEMS or size >= _BATCH_BYTES
        if batch and (is_due or time.monotonic() - since_s >= _GATHER_S):
            await _send(client, place, batch)
            batch, size, since_s = [], 0, time.monotonic()
    return count


async def _looking_up(items: AsyncIterator[Document]) -> AsyncIterator[tuple[Document | None, bool]]:
    """Yield each item with False; yield (None, True) after a pause and at the end, when the batch is to be sent."""
    following = asyncio.ensure_future(anext(items, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=_GATHER_S)
            if not done:
                yield None, True
                continue
            item = following.result()
            if item is None:
                break
            following = asyncio.ensure_future(anext(items, None))
            yield item, False
        yield None, True
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _send(client: httpx.AsyncClient, place: str, batch: list[Document]) -> None:
    until_s, failures = time.monotonic() + _GIVES_UP_AFTER_S, 0
    while True:
        try:
            response = await client.post(place, json={"items": batch})
        except httpx.RequestError as error:
            why, requested_s = no_answer_text(str(client.base_url).rstrip("/"), error), None
        else:
            if response.is_success:
                return
            why = error_of(response) or f"HTTP {response.status_code}"
            if response.status_code not in _AGAIN:
                raise Undelivered(one_line(why))
            header = response.headers.get("retry-after", "")
            requested_s = float(header) if header.isdecimal() else None
        if time.monotonic() > until_s:
            raise Undelivered(one_line(why))
        failures += 1
        own_s = backoff_s(failures, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S)
        await asyncio.sleep(own_s if requested_s is None else min(requested_s, _LONGEST_WAIT_S))
