"""The memory of a streamed response is released when its client leaves or stops reading, on every route."""

import ast
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from collector.listeners.answer_resources import close_with_answer
from tests.live import PATIENCE_S, until
from tests.offline import Offline, an_offline_server, lines
from tests.serving import post
from tests.source_tree import files
from tests.storing import an_export, trace_id

IDLE_S: Final = 3
SPANS: Final = 512
TEXT: Final = random.Random(1).randbytes(10_000).hex()  # which no compression makes small
LARGE: Final = TEXT * 25
TIMES: Final = "from=2020-01-01T00:00:00Z&to=2030-01-01T00:00:00Z"


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield a server with 20 MB of spans, a run and a dataset of 12 MB."""
    data = tmp_path_factory.mktemp("left") / "data"
    with an_offline_server(data, idle_seconds=IDLE_S, answer_bytes=1 << 30) as api:
        assert api.running is not None
        for first in range(0, SPANS, 256):
            export = an_export(256, first=first)
            for number, span in enumerate(export.resource_spans[0].scope_spans[0].spans):
                span.attributes.add(key="text").value.string_value = f"{TEXT[number:]}{TEXT[:number]}" * 2
            post(f"http://{api.running.otlp_http}/v1/traces", export.SerializeToString())
        assert api.running.store.wait_committed(PATIENCE_S)
        run = api.begin(name="large")
        for first in range(0, 24, 8):
            keys = map(str, range(first, first + 8))
            api.report(run, *({"datasetItemId": key, "actualOutputs": {"output": LARGE}} for key in keys))
        api.dataset()
        api.imported(lines(*({"id": f"item-{number}", "inputs": {"input": LARGE}} for number in range(24))))
        yield api


def paths(api: Offline) -> list[str]:
    """Return the routes that stream, as in a request line."""
    ((run,),) = api.sql("SELECT run_id FROM runs")
    return [
        f"GET /api/v1/export/spans?{TIMES}",
        f"GET /api/v1/export/spans?{TIMES}&format=otlp-json",
        f"GET /api/v1/traces/{trace_id(0)}/otlp",
        f"GET /traces/{trace_id(0)}/otlp",
        *(f"GET /api/v1/runs/{run}/export?format={form}" for form in ("json", "csv", "markdown", "html", "junit")),
        "GET /api/v1/datasets/qa/versions/latest/export",
        "POST /api/v1/backup",
    ]


def unread(stack: ExitStack, api: Offline, path: str) -> socket.socket:
    """Ask for an answer, and read its status only."""
    assert api.running is not None
    host, _, port = api.running.http.rpartition(":")
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    client.sendall(f"{path} HTTP/1.1\r\nhost: {api.running.http}\r\ncontent-length: 0\r\n\r\n".encode())
    assert client.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200", (path, client.recv(1000))
    return client


@pytest.mark.costly(
    "collector/api",
    "collector/datasets",
    "collector/listeners",
    "collector/experiments",
    "storage/offline",
    "storage/operation",
    "storage/query",
)
@pytest.mark.parametrize("leaves", [True, False])
def test_what_answers_hold_is_released_without_a_reader(api: Offline, *, leaves: bool) -> None:
    """Of each streaming route nothing is held once its client left, or read nothing for `idle_seconds`."""
    assert api.running is not None
    context = api.running.context
    resources = context.answers.resources
    with ExitStack() as stack:
        for path in paths(api):
            unread(stack, api, path)
            if not leaves:
                continue
            assert any(resources.values()), path
            stack.pop_all().close()
            assert not any(until(lambda: list(resources.values()), lambda held: not any(held))), path
            assert context.store.exports.running == 0, path
            assert context.answers.held == 0, path
        until(lambda: any(resources.values()), lambda held: not held)
    assert (context.store.exports.running, context.answers.held, any(resources.values())) == (0, 0, False)
    folder = str(context.settings.data)
    opened = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in opened if each.startswith(folder) and each.endswith("(deleted)")]


def test_all_places_are_free_after_six_clients_left(api: Offline) -> None:
    """Exports that were left by as many clients as there are places keep no place from the next one."""
    for _ in range(6):
        with ExitStack() as stack:
            unread(stack, api, paths(api)[1])
    with ExitStack() as stack:
        unread(stack, api, paths(api)[0])


def test_only_one_module_streams() -> None:
    """No route makes a streaming response by itself, so that each closes its resources with its answer."""
    streaming = [
        file.path
        for file in files("collector")
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom) and any(each.name.endswith("StreamingResponse") for each in node.names)
    ]
    assert streaming == ["collector/api/base/streamed.py"]


def test_nothing_is_held_outside_of_an_answer() -> None:
    """Registering a resource outside of an answer, which could close it, is refused."""
    with pytest.raises(LookupError):
        close_with_answer(iter([]))  # type: ignore[arg-type] # never closed
