"""A server with results of many days, as if rules had judged traces all that time, and monitors that have seen them."""

import dataclasses
import datetime as dt
import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from collector.app import Running
from rules.rule_text import parse_json
from storage.alerting.monitors import RuleKey
from tests.live import until
from tests.serving import a_server
from tests.storing import trace_id

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J&'\"%s{{7*7}}"
PROJECT = "shop"
FIRST, SECOND = "1a2b3c4d5e6f", "9f8e7d6c5b4a"
DAY = dt.timedelta(days=1)

_EVALUATIONS = """
INSERT INTO evaluation BY NAME
SELECT *, (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY job_id) AS number FROM incoming_results
"""
_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("job_id", "seq")),
        *((name, pa.int32()) for name in ("revision", "round", "attempts")),
        *((name, pa.string()) for name in ("tenant", "project", "trace_id", "release", "name", "fingerprint")),
        *((name, pa.string()) for name in ("span_id", "outcome", "reason", "error_kind")),
        *((name, pa.float64()) for name in ("score", "threshold", "cost_usd")),
        ("passed", pa.bool_()),
        ("counted", pa.bool_()),
        ("service", pa.string()),
        ("occasion", pa.string()),
        ("started_at", pa.timestamp("us")),
        ("created_at", pa.timestamp("us")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One result; without a score it failed."""

    score: float | None
    at: dt.datetime
    release: str | None = "1.4.0"
    fingerprint: str = FIRST
    outcome: str = "scored"
    reason: str = "it names the order"
    tenant: str = ""
    service: str | None = None
    started: dt.datetime | None = None  # the start of the judged target; None: unknown
    occasion: str = "live"


class Rule:
    """An active rule, whose results are made here."""

    jobs = 0

    def __init__(self, running: Running, name: str, project: str = PROJECT, **more: object) -> None:
        text = json.dumps({"name": name, "evaluator": "length", "config": {"maximumOutputLength": 20}, **more})
        kept = running.pipeline.rules.create(project, parse_json(text), text)
        self.store = running.store
        self.revision = kept.stored.revision
        self.key = RuleKey("", project, kept.stored.rule_id)

    def come(self, results: Sequence[Judged]) -> None:
        """Store these as workers do, in this order."""
        rows = [self._row(each) for each in results]
        table = pa.Table.from_pylist(rows, schema=_SCHEMA)

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.register("incoming_results", table)
            cursor.execute(_EVALUATIONS)
            cursor.execute("UPDATE result_state SET last_number = (SELECT max(number) FROM evaluation)")

        self.store._writer.store(write, len(rows))

    def _row(self, each: Judged) -> dict[str, Any]:
        Rule.jobs += 1
        is_scored = each.outcome == "scored"
        return {
            "job_id": Rule.jobs,
            "seq": Rule.jobs,
            "revision": self.revision,
            "round": 0,
            "attempts": 1,
            "tenant": each.tenant,
            "project": self.key.project,
            "trace_id": trace_id(Rule.jobs),
            "release": each.release,
            "name": "Length",
            "fingerprint": each.fingerprint,
            "outcome": each.outcome,
            "reason": each.reason,
            "error_kind": None if is_scored else "timeout",
            "score": each.score,
            "threshold": 0.5,
            "cost_usd": 0.0004,
            "passed": None if each.score is None else each.score >= 0.5,
            "counted": is_scored and each.occasion == "live",
            "service": each.service,
            "occasion": each.occasion,
            "started_at": each.started,
            "created_at": each.at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The server, its rule with releases, its rule with a hostile name, and the alert about the first."""

    running: Running
    rule: Rule
    hostile: Rule
    alert_id: str

    @property
    def origin(self) -> str:
        """Return the address of its pages."""
        return f"http://{self.running.http}"


def drawn(source: random.Random, count: int, level: float, at: dt.datetime, **same: Any) -> list[Judged]:
    """Return results within an hour whose scores spread around a level."""
    return [
        Judged(
            score=round(min(max(source.gauss(level, 0.18), 0.0), 1.0), 3),
            at=at + dt.timedelta(seconds=30 * number),
            **same,
        )
        for number in range(count)
    ]


@contextmanager
def a_history(data: Path, **settings: Any) -> Iterator[History]:
    """Serve ten days: another evaluator after three, a release after six, and one that is worse since yesterday."""
    source = random.Random(7)
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)
    with a_server(data, **settings) as running:
        rule = Rule(running, "polite answers")
        for ago in range(10, 0, -1):
            at = now - ago * DAY
            level = 0.82 if ago > 1 else 0.4
            release = "1.4.0" if ago > 4 else "1.4.1" if ago > 1 else "1.5.0"
            rule.come(drawn(source, 40, level, at, release=release, fingerprint=FIRST if ago > 7 else SECOND))
        failed = [
            Judged(score=None, at=now - DAY, release="1.5.0", fingerprint=SECOND, outcome="failed", reason="no answer")
        ]
        skipped = [dataclasses.replace(failed[0], outcome="skipped", reason="over budget")] * 2
        rule.come(failed * 3 + skipped)
        hostile = Rule(running, "hostile " + HOSTILE, project=HOSTILE)
        for at, release in ((now - DAY, HOSTILE), (now - DAY / 2, HOSTILE + "2")):
            hostile.come(drawn(source, 12, 0.7, at, release=release, reason=HOSTILE))
        (alert,) = until(running.store.alerts.newest, bool)
        yield History(running=running, rule=rule, hostile=hostile, alert_id=alert.alert_id)
