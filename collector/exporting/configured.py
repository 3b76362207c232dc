"""What leaves, as the settings have it."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from collector.exporting.endpoint import Endpoint
from collector.exporting.results import ResultsExporter
from collector.settings import BadSettings, Settings, environment_variable
from storage.store import Store

if TYPE_CHECKING:
    from collector.exporting.own_traces import OwnTraces


async def telling(
    stack: AsyncExitStack, settings: Settings, store: Store, ingest_is_behind: Callable[[], bool]
) -> ResultsExporter | None:
    """What tells results, until the stack is closed; None where nobody wants to be told.

    Raises:
        BadSettings: a variable is not set.
    """
    if settings.results_endpoint is None:
        return None
    endpoint = Endpoint(settings.results_endpoint, values_of("results_headers", settings.results_headers))
    exporter = ResultsExporter(
        store.results_out, endpoint, most=settings.results_batch, ingest_is_behind=ingest_is_behind
    )
    exporter.start()
    stack.push_async_callback(asyncio.to_thread, exporter.close)
    return exporter


async def tracing(stack: AsyncExitStack, settings: Settings) -> "OwnTraces | None":
    """What sends the server's own traces, until the stack is closed; None where nobody takes them.

    Raises:
        BadSettings: a variable is not set.
    """
    if settings.own_traces_endpoint is None:
        return None
    # The exporter takes a fifth of the time that a start takes.
    from collector.exporting.own_traces import OwnTraces  # noqa: PLC0415 - see above

    headers = values_of("own_traces_headers", settings.own_traces_headers)
    traces = OwnTraces(settings.own_traces_endpoint, headers, instance=socket.gethostname())
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces


def values_of(setting: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with what the variables hold that they name.

    Raises:
        BadSettings: one is not set.
    """
    values = {header: environment_variable(variable) for header, variable in headers.items()}
    for header, value in values.items():
        if not value:
            raise BadSettings(f"{setting}: the variable {headers[header]} is not set")
    return {header: value for header, value in values.items() if value}
