"""The verdicts of `make soak`: each broken promise is noticed, over made-up measurements."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from benchmarks import hostile_soak
from benchmarks.soak_clients import Asked, Traces
from benchmarks.soak_report import Kept, Sample, judge, look, tables

SECONDS = 3600.0
KEPT = Kept(sent=10, acknowledged=9, deleted=1, lost=0, risen=0, strange=0, spans=90)
REQUESTS = {"dashboards": Asked(took_ms=[1.0, 2.0], statuses={"503": 1})}


def samples(*, grows_mib: float = 0.0, lag_s: float = 1.0) -> list[Sample]:
    """Return an hour of samples, with memory that varies by 40 MiB and grows by `grows_mib` in all."""
    return [
        Sample(
            at_s=float(at_s),
            life=0,
            rss_bytes=int((700 + 40 * (at_s // 5 % 2) + grows_mib * at_s / SECONDS) * (1 << 20)),
            own_bytes=500 << 20,
            file_bytes=1 << 30,
            disk_bytes=1 << 30,
            lag_s=lag_s if at_s > 3000 else 0.0,
            jobs=0,
            backlog_bytes=0,
        )
        for at_s in range(0, int(SECONDS), 5)
    ]


def broken(measured: Sequence[Sample], kept: Kept = KEPT, requests: dict[str, Asked] = REQUESTS) -> list[str]:
    """Return the promises that were not kept."""
    return [each.promise for each in judge(measured, SECONDS, kept, requests) if not each.holds]


def test_an_hour_in_which_all_is_kept_is_judged_so() -> None:
    """Memory that goes up and down about the same level is flat, and refusals are not internal errors."""
    assert broken(samples()) == []


@pytest.mark.parametrize(
    "kept, promise",
    [
        (replace(KEPT, lost=1), "nothing that was acknowledged is lost"),
        (replace(KEPT, strange=1), "nothing that was acknowledged is lost"),
        (replace(KEPT, acknowledged=0), "nothing that was acknowledged is lost"),
        (replace(KEPT, risen=1), "what was deleted is gone"),
        (replace(KEPT, deleted=0), "what was deleted is gone"),
    ],
)
def test_what_is_lost_or_comes_back_is_seen(kept: Kept, promise: str) -> None:
    """One trace is enough, and so is nothing to judge by."""
    assert broken(samples(), kept) == [promise]


def test_what_grows_lags_or_breaks_is_seen() -> None:
    """Memory that grows by more than it scatters, matching that is behind, and an answer with 500."""
    assert broken(samples(grows_mib=600)) == ["memory is flat"]
    assert broken(samples(lag_s=61)) == ["matching is never 60 s behind"]
    assert broken(samples(), requests={"pages": Asked(statuses={"500": 1})}) == ["no client gets an internal error"]


def test_the_file_is_compared_trace_by_trace(tmp_path: Path) -> None:
    """A trace that lacks a span is lost, one that was not sent is strange, and a deleted one must be absent."""
    ids = [bytes([number]) * 16 for number in range(1, 8)]
    whole, partial, absent, deleted, risen, unanswered, strange = ids
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "sent").write_bytes(b"".join(ids[:-1]))
    (tmp_path / "acknowledged").write_bytes(whole + partial + absent + deleted + risen)
    (tmp_path / "acknowledged_spans").write_bytes(bytes([2, 2, 2, 2, 2]))
    with duckdb.connect(str(data / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE span (trace_id VARCHAR, project VARCHAR)")
        for trace, count in ((whole, 2), (partial, 1), (risen, 2), (unanswered, 2), (strange, 2)):
            for _ in range(count):
                connection.execute("INSERT INTO span VALUES (?, 'bench-agent')", [trace.hex()])
    traces = Traces()
    traces.deleted |= {deleted.hex(), risen.hex()}
    traces.maybe_deleted |= traces.deleted
    assert look(data, traces) == Kept(sent=6, acknowledged=5, deleted=2, lost=2, risen=1, strange=1, spans=9)


def test_the_tables_have_a_line_for_each_time_and_client() -> None:
    """The tables have twelve periods with their answers, and each kind of client with its other status codes."""
    answered = [
        {"at_s": at_s, "spans": 10, "p50": 1.0, "max": 2.0, "refusals": 0} for at_s in range(0, int(SECONDS), 10)
    ]
    text = tables(samples(), answered, REQUESTS, SECONDS)
    assert len([line for line in text.splitlines() if " to " in line]) == 12
    assert "| dashboards | 2 | 2 / 2 / 2 | 503: 1 |" in text


@pytest.mark.parametrize(
    "requests, stop_ms, log_bytes, promise",
    [
        (Asked(took_ms=[5.0] * 50), 900.0, 1_000, None),
        (Asked(took_ms=[5.0] * 50 + [1_100.0] * 2), 900.0, 1_000, "pages"),
        (Asked(took_ms=[5.0], statuses={"no answer": 1}), 900.0, 1_000, "pages"),
        (Asked(), 900.0, 1_000, "pages"),
        (Asked(took_ms=[5.0]), 11_000.0, 1_000, "SIGTERM"),
        (Asked(took_ms=[5.0]), 900.0, 9_000_000, "the log"),
    ],
)
def test_what_hostile_clients_do_to_others_is_seen(
    requests: Asked, stop_ms: float, log_bytes: int, promise: str | None
) -> None:
    """A slow client, one without an answer, a slow stop, and a log of more than its share each break one promise."""
    measured = [hostile_soak.Sample(at_s=float(at_s), rss_bytes=700 << 20) for at_s in range(0, 3600, 5)]
    good = {"pages": requests, "stop": Asked(took_ms=[stop_ms])}
    judgements = hostile_soak.judge(measured, good, log_bytes, minutes=60.0)
    assert [each.promise.split(":")[0].startswith(promise or "") for each in judgements if not each.holds] == (
        [True] if promise else []
    )
