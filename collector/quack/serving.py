"""The address where DuckDB attaches, served and given up again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from collector.access.origin import is_loopback
from collector.api.base.context import Context
from collector.listening import address_of, bind, serving
from collector.quack.door import Answering, make_door
from collector.quack.gateway import Gateway, GatewayOptions
from collector.settings import BadSettings, Settings

log = logging.getLogger(__name__)

_FOLDER: Final = "quack"


@asynccontextmanager
async def serving_quack(settings: Settings, context: Context) -> AsyncIterator[str | None]:
    """DuckDB's remote protocol, until the block ends; where it listens, None if nowhere.

    Raises:
        BadSettings: every address is to take TLS only, and this one cannot.
        OSError: the address cannot be bound.
        Unusable: the extension is not installed, or does not start.
    """
    if settings.quack is None:
        yield None
        return
    host = settings.quack.rpartition(":")[0]
    if settings.tls_cert is not None and not is_loopback(host.strip("[]")):
        raise BadSettings("quack: does not take TLS, which tls_cert asks for; use a loopback address and a proxy")
    if context.authenticator.keyring.is_open:
        log.warning("DuckDB attaches at %s with an API key only, and there is none", settings.quack)
    with bind(settings.quack) as probe:  # Quack shares an address with whoever has it, and does not tell its port
        port = address_of(probe).rpartition(":")[2]
    seconds = context.sql_limits.seconds
    door = make_door(Answering(queries=context.queries, turns=context.turns, seconds=seconds), context.authenticator)
    with bind("127.0.0.1:0") as bound:
        async with serving(door, bound, 1, None):
            options = GatewayOptions(
                address=f"{host}:{port}",
                door=address_of(bound),
                views=await asyncio.to_thread(context.queries.columns_of_views),
                answers=settings.data / _FOLDER,
                seconds=seconds,
                workarounds=settings.workarounds,
            )
            gateway = Gateway(options)
            try:
                await asyncio.to_thread(gateway.open)
                yield options.address
            finally:
                await asyncio.to_thread(gateway.close)
