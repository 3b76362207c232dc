"""Requests of one client that take long leave threads and processors to others."""

import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from collector.api.base import route_turns
from collector.api.base.route_turns import TurnRoute
from collector.api.serving.application import routes
from collector.web.site import make_site
from storage.query.listing import Listing
from tests.access import a_closed_server
from tests.live import PATIENCE_S, until

ASKED = 50  # more than the threads of the pool


def test_every_route_in_a_thread_takes_turns() -> None:
    """No route of the API or of a page runs in a thread without a turn of its client."""
    alone = [route for route in (*routes(), *make_site().routes) if not isinstance(route, TurnRoute)]
    on_loop = [route for route in alone if isinstance(route, APIRoute) and iscoroutinefunction(route.endpoint)]
    assert alone == on_loop


def test_searches_of_one_key_leave_threads_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fifty searches of a key few run and most wait or are refused, while another key gets lists and pages."""
    begun, end, search = [], threading.Event(), Listing.traces

    def slow(*args: Any, **named: Any) -> Any:
        begun.append(1)
        assert end.wait(PATIENCE_S)
        return search(*args, **named)

    with a_closed_server(tmp_path) as server, ThreadPoolExecutor(ASKED) as pool:
        monkeypatch.setattr(Listing, "traces", slow)
        path = "/api/v1/traces?text=rare"
        answers = [pool.submit(server.ask, "GET", path, key=server.keys["viewer"]) for _ in range(ASKED)]
        turns = server.running.context.route_turns.reads
        most = route_turns._READS_OF_ONE
        until(lambda: (len(begun), len(turns._waiting)), lambda counts: counts == (most, 32))
        for path in ("/api/v1/traces", "/rules", "/api/v1/sessions"):
            assert server.ask("GET", path, key=server.keys["editor"]).status_code == 200
        assert len(begun) == most
        end.set()
        statuses = [answer.result().status_code for answer in answers]
    assert (statuses.count(200), statuses.count(503)) == (most + 32, ASKED - 32 - most)
