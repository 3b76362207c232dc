"""Shared parts of the tests of pages: a server with something on every page, and the address of each page."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
from fastapi.routing import APIRoute

from collector.app import Running
from collector.delivery.receivers import RequestedWebhook
from collector.sample import SampleReport, send_sample
from collector.web.site import make_site
from tests.alerting import a_finding
from tests.live import a_client, until
from tests.offline import Offline
from tests.serving import a_server

SAMPLE_RULES = Path(__file__).parent.parent / "collector" / "sample_rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A server without keys, with the sample in it and the results of its rules."""

    running: Running
    sample: SampleReport

    @property
    def origin(self) -> str:
        """Return the address of its pages."""
        return f"http://{self.running.http}"

    @property
    def trace_id(self) -> str:
        """Return one of its traces."""
        return self.sample.trace_ids[0]


def connection_id(shown: Shown) -> str:
    """Return the id of a connection of such a server, created on first use."""
    connections = shown.running.context.judging.connections
    document = {"name": "judge", "baseUrl": "https://models.example/v1", "model": "judge-1"}
    return (connections.all() or [connections.create(document)])[0].connection_id


def webhook_id(shown: Shown) -> str:
    """Return the id of a webhook of such a server, created on first use."""
    receivers = shown.running.context.receivers
    return (
        receivers.all() or [receivers.create(None, RequestedWebhook(url="https://alerts.example/hook", secret=None))]
    )[0].webhook_id


def _alert(shown: Shown) -> str:
    finding = a_finding(project="sample")
    shown.running.store.alerts.open(finding, time.time_ns())
    return f"/alerts/{finding.alert_id}"


def own_rule(shown: Shown) -> str:
    """Return the id of a rule that can be changed on a page."""
    with a_client() as client:
        rules = client.get(f"{shown.origin}/api/v1/trace-eval-rules").json()["content"]
        own = [rule["id"] for rule in rules if rule["origin"] == "API"]
        if not own:
            made = client.post(f"{shown.origin}/api/v1/projects/sample/trace-eval-rules", json=OWN_RULE)
            own = [made.raise_for_status().json()["id"]]
    return str(own[0])


OWN_RULE = {
    "name": "short answers",
    "conditions": [{"field": "span_type", "op": "=", "value": "llm"}],
    "evaluator": "length",
    "config": {"maximumOutputLength": 400},
    "budget": {"callsPerDay": 10},
}


@contextmanager
def asking(shown: Shown) -> Iterator[Offline]:
    """Yield the API of such a server."""
    with a_client() as client:
        yield Offline(shown.origin, client)


def a_dataset(shown: Shown) -> str:
    """Return the address of a dataset's second version, created on first use: items added, removed and changed."""
    refund = {"id": "refund", "input": "May I return it?", "expectedOutput": "Within 30 days", "metadata": {"a": 1}}
    price = {"id": "price", "inputs": {"question": "What is it?", "lang": "en"}, "expectedOutput": {"usd": 5}}
    with asking(shown) as api:
        if "qa" not in {each["name"] for each in api.ask("GET", "datasets")}:
            api.dataset(description="What people ask of the shop", tags=["shop", "en"])
            api.version(refund, price, {"id": "gone", "input": "Hello"}, description="first")
            api.version(refund | {"expectedOutput": "Within 14 days"}, price, {"id": "new", "input": "Where is it?"})
        return f"/datasets/{api.ask('GET', 'datasets/qa')['id']}/versions/2"


def a_run(shown: Shown) -> str:
    """Return the id of a run on it, created on first use: an item for each outcome, one of them with a trace."""
    a_dataset(shown)
    with asking(shown) as api:
        if not api.ask("GET", "projects/shop/experiments"):
            for number in range(3):
                run = api.begin(name=f"nightly {number}", datasetName="qa", datasetVersion=2, gitBranch="main")
                api.report(run, *_items(shown.trace_id, number))
                api.end(run)
        (experiment,) = (each for each in api.ask("GET", "projects/shop/experiments") if each["name"] == "qa")
        return str(experiment["latestRun"]["runId"])


def _items(trace_id: str, number: int) -> list[dict[str, object]]:
    right = {"name": "exact", "score": 0.9, "threshold": 0.5, "fingerprint": "f1", "reason": "It says so."}
    wrong = right | {"score": 0.1 + number / 10, "reason": "It says 60 days, and 14 are expected."}
    fields = {"traceId": trace_id, "tokensIn": 120, "tokensOut": 30, "costUsd": 0.0004, "latencyMs": 310}
    return [
        fields | {"datasetItemId": "refund", "actualOutputs": {"output": "Within 60 days"}, "evalResults": [wrong]},
        {"datasetItemId": "price", "actualOutputs": {"output": {"usd": 5}}, "evalResults": [right]},
        {"datasetItemId": "new", "error": "no answer in 30 s", "errorKind": "TimeoutError"},
        {"itemKey": "odd", "inputs": {"input": "?"}, "evalResults": [{"name": "exact", "error": "the judge is away"}]},
    ]


def an_experiment(shown: Shown) -> str:
    """Return the address of the experiment of that run."""
    run = a_run(shown)
    with asking(shown) as api:
        return f"/experiments/{api.ask('GET', f'runs/{run}')['experimentId']}"


def an_item(shown: Shown) -> str:
    """Return the address of an item of that run."""
    run = a_run(shown)
    with asking(shown) as api:
        return f"/runs/{run}/items/{api.ask('GET', f'runs/{run}')['items']['content'][0]['id']}"


def a_review(shown: Shown) -> str:
    """Return the address of a review queue entry with a vote, created on first use."""
    with asking(shown) as api:
        if not api.ask("GET", "review-queues"):
            text = {"name": "failing answers", "instructions": "Is the answer right?", "reviewers": 2}
            queue = api.ask("POST", "review-queues", 201, json=text)["id"]
            api.ask("POST", f"review-queues/{queue}/entries", 201, json={"targets": [{"traceId": shown.trace_id}]})
            entry = api.ask("POST", f"review-queues/{queue}/next")["entry"]["id"]
            vote = {"label": "INCORRECT", "note": "It is 14 days."}
            api.ask("PUT", f"review-queues/{queue}/entries/{entry}/vote", json=vote)
        (queue_document,) = api.ask("GET", "review-queues")
        (entry,) = api.ask("GET", f"review-queues/{queue_document['id']}/entries")["content"]
        return f"/review/{queue_document['id']}/entries/{entry['id']}"


def a_saved_view(shown: Shown) -> str:
    """Return the address of a saved view, created on first use."""
    with asking(shown) as api:
        if not api.ask("GET", "saved-views"):
            api.ask("POST", "saved-views", 201, json={"name": "failing travel", "query": "status=error&project=sample"})
        return f"/traces/views/{api.ask('GET', 'saved-views')[0]['id']}"


EXAMPLES: Mapping[str, Callable[[Shown], str]] = {
    "/connections/{connection_id}": lambda shown: f"/connections/{connection_id(shown)}",
    "/connections/{connection_id}/edit": lambda shown: f"/connections/{connection_id(shown)}/edit",
    "/connections/{connection_id}/delete": lambda shown: f"/connections/{connection_id(shown)}/delete",
    "/webhooks/{webhook_id}": lambda shown: f"/webhooks/{webhook_id(shown)}",
    "/webhooks/{webhook_id}/edit": lambda shown: f"/webhooks/{webhook_id(shown)}/edit",
    "/webhooks/{webhook_id}/secret": lambda shown: f"/webhooks/{webhook_id(shown)}/secret",
    "/webhooks/{webhook_id}/delete": lambda shown: f"/webhooks/{webhook_id(shown)}/delete",
    "/rules/{rule_id}": lambda shown: f"/rules/{own_rule(shown)}",
    "/rules/{rule_id}/edit": lambda shown: f"/rules/{own_rule(shown)}/edit",
    "/traces/{trace_id}": lambda shown: f"/traces/{shown.trace_id}",
    "/sessions/{session_id:name}": lambda _: "/sessions/conv-support-17",
    "/alerts/{alert_id}": _alert,
    "/datasets/{dataset_id}": lambda shown: a_dataset(shown).partition("/versions")[0],
    "/datasets/{dataset_id}/delete": lambda shown: a_dataset(shown).partition("/versions")[0] + "/delete",
    "/datasets/{dataset_id}/versions/{version}": a_dataset,
    "/datasets/{dataset_id}/versions/{version}/diff": lambda shown: f"{a_dataset(shown)}/diff",
    "/experiments/{experiment_id}": an_experiment,
    "/runs/{run_id}": lambda shown: f"/runs/{a_run(shown)}",
    "/runs/{run_id}/diff": lambda shown: f"/runs/{a_run(shown)}/diff",
    "/runs/{run_id}/items/{number}/promote": lambda shown: f"{an_item(shown)}/promote",
    "/review/{queue_id}": lambda shown: a_review(shown).partition("/entries")[0],
    "/review/{queue_id}/edit": lambda shown: a_review(shown).partition("/entries")[0] + "/edit",
    "/review/{queue_id}/add": lambda shown: a_review(shown).partition("/entries")[0] + "/add",
    "/review/{queue_id}/delete": lambda shown: a_review(shown).partition("/entries")[0] + "/delete",
    "/review/{queue_id}/entries/{entry_id}": a_review,
    "/traces/{trace_id}/compare": lambda shown: f"/traces/{shown.trace_id}/compare?with={shown.sample.trace_ids[1]}",
    "/traces/{trace_id}/judge": lambda shown: f"/traces/{shown.trace_id}/judge",
    "/traces/{trace_id}/promote": lambda shown: f"/traces/{shown.trace_id}/promote",
    "/traces/{trace_id}/preview": lambda shown: f"/traces/{shown.trace_id}/preview",
    "/traces/views/{view_id}/edit": lambda shown: f"{a_saved_view(shown)}/edit",
    "/traces/views/{view_id}/delete": lambda shown: f"{a_saved_view(shown)}/delete",
}
"""Of each page whose address has something in braces, one such address; a test says which are missing."""

NO_PAGES = {
    "/static/{digest}/{name}",
    "/favicon.ico",
    "/traces/{trace_id}/next",
    "/traces/{trace_id}/otlp",
    "/datasets/{dataset_id}/versions/{version}/export",
    "/datasets/{dataset_id}/versions/{version}/text",
    "/runs/{run_id}/export",
    "/runs/{run_id}/items/{number}/text",
    "/traces/{trace_id}/spans/{span_id}/text",
    "/traces/{trace_id}/spans/{span_id}/media",
}
"""The routes that answer with something else than a page."""

OF_KEYS = {"/keys/{key_id}/disable", "/keys/{key_id}/delete"}
"""Pages that a server without keys does not have; tests/test_web_keys.py checks them."""


def templates() -> list[str]:
    """Return the addresses of all pages, as routes have them."""
    routes = [route for route in make_site().routes if isinstance(route, APIRoute)]
    return [route.path for route in routes if "GET" in (route.methods or ()) and route.path not in NO_PAGES | OF_KEYS]


def path_of(template: str, shown: Shown) -> str:
    """Return the path of a page, its parameters filled in."""
    return EXAMPLES[template](shown) if "{" in template else template


@contextmanager
def a_shown_server(data: Path) -> Iterator[Shown]:
    """Start such a server and wait until its rules are through with the sample."""
    with a_server(data, rules=SAMPLE_RULES, settle_after_root_seconds=0, settle_quiet_seconds=0) as running:
        sample = send_sample(grpc=running.grpc, otlp_http=running.otlp_http)
        until(lambda: running.store.queries.sql(_JUDGED, max_rows=1, timeout_s=10).rows, bool)
        running.traces.wait_idle(30)
        yield Shown(running=running, sample=sample)


_JUDGED = "SELECT 1 FROM evaluations"


class Visit:
    """A visitor without a browser, who keeps cookies and fills in forms."""

    def __init__(self, origin: str) -> None:
        self.client: httpx.Client = a_client()
        self.origin = origin

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str, accept: str = "text/html") -> httpx.Response:
        """Get a page."""
        return self.client.get(self.origin + path, headers={"accept": accept})

    def send(self, page: str, action: str, **fields: str) -> httpx.Response:
        """Send the form of a page, with its token and the version that it shows."""
        shown = self.get(page).text
        hidden = {"csrf": token_on(shown)} | version_on(shown)
        return self.client.post(self.origin + action, data=hidden | fields)


def version_on(page: str) -> dict[str, str]:
    """Return the field with the version that the form of a page changes; empty if it has none."""
    return dict(re.findall(r'name="(version)" value="(\d+)"', page))


def token_on(page: str) -> str:
    """Return the token of the forms of a page; "" if it has none."""
    match = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    return match[1] if match else ""
