"""Requests of one client that take long leave threads and processors to others."""

import itertools
import json
import re
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from collector.api.base import request_turns
from collector.api.base.route_turns import ScheduledRoute, _query_names
from collector.api.offline import dataset_files
from collector.api.serving.application import routes
from collector.path_names import subject_of
from collector.web.site import make_site
from storage.offline.datasets import Dataset, Datasets
from storage.query.listing import Listing
from tests.access import a_closed_server
from tests.answers import the_document
from tests.live import PATIENCE_S, until

REQUESTS = 50  # more than the threads of the pool


def test_every_route_in_a_thread_takes_turns() -> None:
    """No route of the API or of a page runs in a thread without a turn of its client."""
    alone = [route for route in (*routes(), *make_site().routes) if not isinstance(route, ScheduledRoute)]
    on_loop = [route for route in alone if isinstance(route, APIRoute) and iscoroutinefunction(route.endpoint)]
    assert alone == on_loop


def test_the_first_segment_of_each_route_is_literal() -> None:
    """The gate looks for the route of a request among those of its first segment, and decides access by it."""
    subjects = {subject_of(getattr(route, "path", "{")) for route in (*routes(), *make_site().routes)}
    assert {subject for subject in subjects if "{" in subject} == set()
    assert len(subjects) > 20


def test_the_parameters_that_a_request_may_have_are_those_of_the_contract() -> None:
    """What a route knows is read from its declaration, of which the document of the contract is made as well."""
    documented = the_document()["paths"]
    for route in routes():
        if isinstance(route, APIRoute) and route.include_in_schema:
            operations = documented[re.sub(r":\w+}", "}", route.path)]
            (method,) = route.methods or {""}
            parameters = operations[method.lower()].get("parameters", ())
            lists = {each["name"]: '"array"' in json.dumps(each) for each in parameters if each["in"] == "query"}
            assert _query_names(route.dependant) == lists


def test_stalled_imports_of_one_key_leave_places_to_others(tmp_path: Path) -> None:
    """A key whose files do not arrive is refused another import, and a second key gets its own."""
    with a_closed_server(tmp_path) as server, ExitStack() as stack:
        made = server.ask("POST", "/api/v1/datasets", key=server.keys["editor"], json={"name": "cases"})
        path = f"/api/v1/datasets/{made.json()['id']}/import"
        head = f"POST {path} HTTP/1.1\r\nhost: {server.running.http}\r\nauthorization: Bearer {server.keys['editor']}"
        host, _, port = server.running.http.rpartition(":")
        for _ in range(2):
            stalled = stack.enter_context(socket.create_connection((host, int(port))))
            stalled.sendall(f"{head}\r\ncontent-type: application/jsonl\r\ncontent-length: 100\r\n\r\n{{".encode())

        def send(role: str) -> int:
            content, headers = b'{"inputs": {"question": "?"}}', {"content-type": "application/jsonl"}
            return server.ask("POST", path, key=server.keys[role], content=content, headers=headers).status_code

        until(dataset_files._imports._held.total, lambda held: held == 2)
        assert (send("editor"), send("admin")) == (503, 201)


def test_searches_of_one_key_leave_threads_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fifty searches of a key few run and most wait or are refused, while another key gets lists and pages."""
    begun, end, search = [], threading.Event(), Listing.traces

    def slow(*args: Any, **named: Any) -> Any:
        begun.append(1)
        assert end.wait(PATIENCE_S)
        return search(*args, **named)

    with a_closed_server(tmp_path) as server, ThreadPoolExecutor(REQUESTS) as pool:
        monkeypatch.setattr(Listing, "traces", slow)
        path = "/api/v1/traces?text=rare"
        answers = [pool.submit(server.ask, "GET", path, key=server.keys["viewer"]) for _ in range(REQUESTS)]
        turns = server.running.context.route_turns.reads
        most = request_turns._READS_OF_ONE
        until(lambda: (len(begun), len(turns._waiting)), lambda counts: counts == (most, 32))
        for path in ("/api/v1/traces", "/rules", "/api/v1/sessions"):
            assert server.ask("GET", path, key=server.keys["editor"]).status_code == 200
        assert len(begun) == most
        end.set()
        statuses = [answer.result().status_code for answer in answers]
    assert (statuses.count(200), statuses.count(503)) == (most + 32, REQUESTS - 32 - most)


def test_large_bodies_of_one_key_are_worked_on_two_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five versions with large bodies two are made at a time, while a second key makes its own and a small one."""
    begun, end, add_items = [], threading.Event(), Datasets.add_items

    def slow(self: Datasets, dataset: Dataset, items: Any, **named: Any) -> Any:
        if dataset.name == "cases":
            begun.append(1)
            assert end.wait(PATIENCE_S)
        return add_items(self, dataset, items, **named)

    with a_closed_server(tmp_path) as server, ThreadPoolExecutor(5) as pool:
        monkeypatch.setattr(Datasets, "add_items", slow)
        for name in ("cases", "others"):
            server.ask("POST", "/api/v1/datasets", key=server.keys["admin"], json={"name": name}).raise_for_status()

        def send(role: str, name: str, size: int) -> int:
            items = [{"inputs": {"question": "?" * size}}]
            path, key = f"/api/v1/datasets/{name}/versions", server.keys[role]
            return server.ask("POST", path, key=key, json={"items": items}).status_code

        answers = [pool.submit(send, "editor", "cases", 100_000 + number) for number in range(5)]
        large = server.running.context.route_turns.large
        until(lambda: (len(begun), len(large._waiting)), lambda counts: counts == (2, 3))
        assert (send("admin", "others", 100_000), send("editor", "others", 1)) == (201, 201)
        end.set()
        assert [answer.result() for answer in answers] == [201] * 5


def test_a_route_matches_what_its_pattern_matches() -> None:
    """What a route leaves unexamined by the beginning of an address is nothing that its pattern would take."""
    of_turns = [route for route in [*routes(), *make_site().routes] if isinstance(route, ScheduledRoute)]
    assert of_turns
    paths = [re.sub(r"\{[^}]*\}", "a", route.path) for route in of_turns]
    for route, path in itertools.product(of_turns, [*paths, "", "/", "/traces/", "/nowhere"]):
        scope = {"type": "http", "method": "GET", "path": path}
        assert route.matches(dict(scope))[0] is APIRoute.matches(route, dict(scope))[0], (route.path, path)


def test_what_most_routes_depend_on_takes_no_thread() -> None:
    """To hand over who asks, and what there is, is done on the loop: a thread for each took as long as `/health`."""
    of_turns = [route for route in [*routes(), *make_site().routes] if isinstance(route, ScheduledRoute)]
    counts = Counter(each.call for route in of_turns for each in route.dependant.dependencies)
    shared = [call for call, count in counts.items() if count > len(of_turns) / 4]
    assert len(shared) > 1
    assert [call for call in shared if not iscoroutinefunction(call)] == []
