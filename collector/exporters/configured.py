"""The exporters that the settings configure."""

import asyncio
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from collector.exporters.answers import Endpoint
from collector.exporters.grpc_endpoint import GrpcEndpoint
from collector.exporters.http_endpoint import HttpEndpoint
from collector.exporters.results import ResultsExporter
from collector.setting_values import is_grpc
from collector.settings import BadSettings, Settings
from collector.settings_loading import environment_variable
from storage.store import Store

_GRPC_NAME: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")  # values of names that end with -bin are binary
_GRPC_VALUE: Final = re.compile(r"[ -~]+")

if TYPE_CHECKING:
    from collector.exporters.own_traces import OwnTraces


async def telling(
    stack: AsyncExitStack, settings: Settings, store: Store, ingest_is_behind: Callable[[], bool]
) -> ResultsExporter | None:
    """Start the exporter of results, until the stack is closed; None if none is configured.

    Raises:
        BadSettings: a variable is not set, or gRPC cannot carry a header.
    """
    if settings.results_endpoint is None:
        return None
    headers = values_of("results_headers", settings.results_headers)
    endpoint = endpoint_at(settings.results_endpoint, headers)
    exporter = ResultsExporter(
        store.results_out, endpoint, most=settings.results_batch, ingest_is_behind=ingest_is_behind
    )
    exporter.start()
    stack.push_async_callback(asyncio.to_thread, exporter.close)
    return exporter


def endpoint_at(url: str, headers: Mapping[str, str]) -> Endpoint:
    """Return the endpoint for the protocol of its URL.

    Raises:
        BadSettings: gRPC cannot carry such a header.
    """
    if not is_grpc(url):
        return HttpEndpoint(url, headers)
    for name, value in headers.items():
        if not _GRPC_NAME.fullmatch(name.lower()) or not _GRPC_VALUE.fullmatch(value):
            raise BadSettings(f"results_headers: {name} and its value cannot be sent as gRPC metadata")
    return GrpcEndpoint(url, headers)


async def tracing(stack: AsyncExitStack, settings: Settings) -> "OwnTraces | None":
    """Start the exporter of the server's own traces, until the stack is closed; None if none is configured.

    Raises:
        BadSettings: a variable is not set.
    """
    if settings.own_traces_endpoint is None:
        return None
    # Importing the exporter takes a fifth of the time of a start.
    from collector.exporters.own_traces import OwnTraces  # noqa: PLC0415 - see above

    headers = values_of("own_traces_headers", settings.own_traces_headers)
    traces = OwnTraces(settings.own_traces_endpoint, headers, instance=socket.gethostname())
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces


def values_of(setting: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the values of the variables that they name.

    Raises:
        BadSettings: a variable is not set.
    """
    values = {header: environment_variable(variable) for header, variable in headers.items()}
    for header, value in values.items():
        if not value:
            raise BadSettings(f"{setting}: the variable {headers[header]} is not set")
    return {header: value for header, value in values.items() if value}
