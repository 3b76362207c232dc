"""A run on the server: beginning or resuming it, sending items, requesting evaluations, and ending it."""

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tracejury.builtin import Builtin
from tracejury.client import Client, Refused, Unreachable
from tracejury.dataset import Dataset, Example
from tracejury.plain import plain
from tracejury.reporter import Reporter, Start
from tracejury.results import ItemResult, Measured
from tracejury.score import Score

_PAGE: Final = 1_000
_POLL_INTERVAL_S: Final = 0.2
_MAX_POLL_INTERVAL_S: Final = 5.0
_CONFLICT: Final = 409
_CHARACTERS: Final = {
    "error": 100_000,
    "reason": 100_000,
    "label": 1_000,
    **dict.fromkeys(("name", "errorKind", "stopReason", "fingerprint", "version", "judgeModel"), 200),
}
"""The longest texts that a server takes."""

_log: Final = logging.getLogger(__name__)

Place = tuple[str, int]
"""The key and the trial of an item."""


class RunEnded(Exception):
    """The run has ended, and accepts no more items: use another run key."""


@dataclass
class ServerRun:
    """A run on the server; without a client, nothing is reported."""

    client: Client | None = None
    start: Start | None = None
    reporter: Reporter | None = None
    known: frozenset[Place] = frozenset()
    has_key: bool = False
    evaluations: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(
        cls, client: Client, project: str, body: Mapping[str, Any], *, reporter: Reporter, must_begin: bool
    ) -> "ServerRun":
        """Begin a run, or resume the run with its key. If the server is unreachable, the run begins later.

        Raises:
            RunEnded: the run of that key has ended without success.
            Unreachable: the server is unavailable, and the run must begin.
            Refused: the server answers with an error.
        """
        fields = {name: value for name, value in body.items() if value is not None}
        has_key = "runKey" in fields
        start = Start(project, {"runKey": uuid.uuid4().hex, **fields})
        try:
            begun = start.begin(client)
            known = frozenset(_known(client, begun["runId"])) if has_key else frozenset()
            goes_on = _goes_on(client, begun)
        except Unreachable as error:
            if must_begin:
                reporter.close()
                raise
            _log.warning("the run is not on the server yet, and its items are kept: %s", error)
            return cls(client, start, reporter, has_key=has_key)
        except Refused:
            reporter.close()
            raise
        if not goes_on:
            reporter.close()
            raise RunEnded(f"the run {begun['runId']} of the key {fields['runKey']!r} is {begun['status']}")
        return cls(client, start, reporter, known, has_key)

    @property
    def run_id(self) -> str | None:
        """Return the id of the run; None before it begins."""
        return None if self.start is None else self.start.run_id

    def report(self, item: ItemResult, dataset: Dataset) -> None:
        """Queue an item for sending."""
        if self.reporter is not None and self.start is not None:
            self.reporter.report(self.start, document_of(item, dataset))

    def ask(self, evaluators: Sequence[Builtin], *, is_whole: bool) -> None:
        """Request evaluations by the server, for the end of the run; existing requests are not repeated.

        A run that has all its items (`is_whole`) requests nothing: an earlier process did so.

        Raises:
            Refused: the server cannot evaluate the run.
            Unreachable: no server is configured, or it does not answer.
        """
        if not evaluators:
            return
        if self.client is None or self.run_id is None:
            raise Unreachable("evaluators with on='server' need a server: set TRACEJURY_URL")
        for evaluator in evaluators:
            body = {"evaluator": evaluator.evaluator, "config": evaluator.config, "connectionId": evaluator.connection}
            request = {name: value for name, value in body.items() if value}
            try:
                if not is_whole:
                    self.evaluations.append(self.client.send("POST", f"/runs/{self.run_id}/evaluations", request))
                    continue
            except Refused as refused:
                if refused.status != _CONFLICT or not self._open(evaluator):
                    raise
            self.evaluations += self._open(evaluator)

    def stop(self, status: str | None) -> tuple[int, int]:
        """Deliver the remaining items, and end the run with a state, or with None leave it open.

        Returns how many items could not be delivered, and how many of these are in the spool. A run with lost items
        stays open if they may be delivered later: by its key, or from the spool.
        """
        if self.reporter is None or self.start is None:
            return 0, 0
        self.reporter.close()
        lost, spooled = self.reporter.lost_items, self.reporter.spooled_items
        may_go_on = status == "SUCCESS" and self.has_key and lost > 0 and not spooled
        if status is not None and not may_go_on:
            reason = f"{lost} items could not be delivered" if lost else None
            try:
                self.reporter.end(self.start, status, reason=reason)
            except (Unreachable, Refused) as error:
                _log.warning("the run %s could not be ended: %s", self.start.name, error)
        return lost, spooled

    def judged(self, wait_s: float) -> dict[Place, list[Score]]:
        """Wait for the scores of the server's evaluators.

        Raises:
            TimeoutError: the server has not evaluated the run within `wait_s`.

        """
        if self.client is None or not self.evaluations:
            return {}
        ids, until_s, look_s = {each["id"] for each in self.evaluations}, time.monotonic() + wait_s, _POLL_INTERVAL_S
        while any(each["id"] in ids for each in self._open()):
            if time.monotonic() > until_s:
                raise TimeoutError(f"the server has not evaluated the run {self.run_id} within {wait_s:g} s")
            time.sleep(look_s)
            look_s = min(look_s * 1.5, _MAX_POLL_INTERVAL_S)
        return {place: [each for of, each in scores if of in ids] for place, _, scores in _stored(self)}

    def restored(self, keys: Mapping[str, Example]) -> dict[Place, ItemResult]:
        """Return the items that the run had before it was resumed, as they were reported."""
        if not self.known:
            return {}
        return {
            place: _restored(document, keys[place[0]], place, [each for _, each in scores])
            for place, document, scores in _stored(self)
            if place in self.known and place[0] in keys
        }

    def _open(self, evaluator: Builtin | None = None) -> list[Mapping[str, Any]]:
        """Return the evaluations of the run that are not done, of one evaluator or of all."""
        return [
            each
            for each in _rows(self, "/evaluations")
            if each["status"] in {"WAITING", "RUNNING"}
            and (evaluator is None or each["evaluator"] == evaluator.evaluator)
        ]


def _goes_on(client: Client, begun: Mapping[str, Any]) -> bool:
    """Tell whether a run is running or has ended with success, also if evaluators of the server are not done yet."""
    if begun["status"] != "EVALUATING":
        return begun["status"] in {"RUNNING", "SUCCESS"}
    try:  # the server refuses this for a run that has ended as FAILED
        client.send("PATCH", f"/runs/{begun['runId']}", {"status": "SUCCESS"})
    except Refused as refused:
        if refused.status != _CONFLICT:
            raise
        return False
    return True


def _known(client: Client, run_id: str) -> set[Place]:
    """Return the keys and trials that a run has."""
    places: set[Place] = set()
    after: int | None = 0
    while after is not None:
        page = client.get(f"/runs/{run_id}/keys", after=after)
        places |= {(each["itemKey"], each["trial"]) for each in page["content"]}
        after = page["next"]
    return places


def _stored(run: ServerRun) -> "Sequence[tuple[Place, Mapping[str, Any], list[tuple[str | None, Score]]]]":
    """Return the items of a run, each with its scores and the ids of their evaluations."""
    return [
        (
            (each["itemKey"], each["trial"]),
            each,
            [(score["evaluationId"], _stored_score(score)) for score in each["evalResults"]],
        )
        for each in _rows(run)
    ]


def _rows(run: ServerRun, of: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the items of a run, or its evaluations, page by page."""
    page = 0
    while run.client is not None:
        document = run.client.get(f"/runs/{run.run_id}{of}", page=page, size=_PAGE)
        rows = document if of else document["items"]["content"]
        yield from rows
        page += 1
        if len(rows) < _PAGE:
            break


def _restored(document: Mapping[str, Any], example: Example, place: Place, scores: Sequence[Score]) -> ItemResult:
    numbers = (document["tokensIn"], document["tokensOut"], document["costUsd"], document["latencyMs"])
    measured = Measured(document["actualOutput"], *numbers)
    error = document["error"], document["errorKind"]
    ids = document["traceId"], document["spanId"]
    return ItemResult(example, *place, document["actualOutput"], scores, *error, measured, document["latencyMs"], *ids)


def _stored_score(document: Mapping[str, Any]) -> Score:
    """Read a score of the server."""
    has_failed = document["outcome"] == "failed"
    return Score(
        name=document["evaluatorName"],
        value=document["score"],
        passed=document["success"],
        threshold=document["threshold"],
        direction=document["direction"] or "higher",
        reason=document["reason"],
        label=document["label"],
        metadata=document["metadata"],
        error=(document["reason"] or document["errorKind"]) if has_failed else None,
        error_kind=document["errorKind"],
        fingerprint=document["fingerprint"],
        version=document["version"],
        judge_model=document["judgeModel"],
        cost_usd=document["costUsd"],
    )


def with_scores(item: ItemResult, scores: Sequence[Score]) -> ItemResult:
    """Return an item with more scores, which replace those of the same name."""
    names = {score.name for score in scores}
    return replace(item, scores=[score for score in item.scores if score.name not in names] + list(scores))


def document_of(item: ItemResult, dataset: Dataset) -> dict[str, Any]:
    """Return an item as a document of the API."""
    measured = item.measured or Measured(None)
    document = {
        "itemKey": item.key,
        "datasetItemId": item.example.id if dataset.version is not None else None,
        "trial": item.trial,
        "inputs": item.example.inputs,
        "expectedOutputs": item.example.expected_outputs,
        "actualOutputs": item.outputs,
        "metadata": item.example.metadata,
        "error": item.error,
        "errorKind": item.error_kind,
        "stopReason": measured.stop_reason,
        "tokensIn": measured.tokens_in,
        "tokensOut": measured.tokens_out,
        "costUsd": measured.cost_usd,
        "latencyMs": item.latency_ms if measured.latency_ms is None else measured.latency_ms,
        "traceId": item.trace_id,
        "spanId": item.span_id,
        "evalResults": [_score(score) for score in item.scores],
    }
    return _within_limits(plain({name: value for name, value in document.items() if value is not None}))


def _score(score: Score) -> dict[str, Any]:
    document = {
        "name": score.name,
        "score": score.value,
        "label": score.label,
        "threshold": score.threshold,
        "direction": score.direction,
        "success": score.success,
        "reason": score.reason,
        "metadata": score.metadata,
        "error": score.error,
        "errorKind": score.error_kind,
        "fingerprint": score.fingerprint,
        "version": score.version,
        "judgeModel": score.judge_model,
        "costUsd": score.cost_usd,
    }
    return _within_limits(plain({name: value for name, value in document.items() if value is not None}))


def _within_limits(document: dict[str, Any]) -> dict[str, Any]:
    # Truncate: the server would reject the item for one long text.
    return {
        name: value if (most := _CHARACTERS.get(name)) is None else str(value)[:most]
        for name, value in document.items()
    }
