"""Report of a soak: its measurements as tables, and the promises that were kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from benchmarks.soak_clients import Asked, Traces

JUDGED_FROM: Final = 0.5
"""Memory and lag are judged from this part of the time on. The last life begins at a quarter, and the processes grow
for some five minutes until their memory is stable: that of DuckDB, and memory that Python and Arrow free late."""

LARGEST_LAG_S: Final = 60.0
"""The largest lag of matching, by the server's own measure."""

NOISE_BYTES: Final = 48 << 20
"""What memory may grow over the judged time, if it scatters less than that. What DuckDB keeps of each row group that it
wrote, some 80 kB, is freed every 256 row groups only."""

ROWS: Final = 12
ID_BYTES: Final = 16
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """State of the server at one moment."""

    at_s: float  # since the load began
    life: int  # how many servers there were before
    rss_bytes: int  # of all processes of the server
    own_bytes: int  # of the first of them
    file_bytes: int
    disk_bytes: int
    lag_s: float
    jobs: int
    backlog_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Comparison of the final file with the acknowledged traces. Counts are of traces, but for the last."""

    sent: int
    acknowledged: int
    deleted: int
    lost: int  # acknowledged, not deleted, and not there with all its spans
    risen: int  # deleted, and there
    strange: int  # there, and never sent
    spans: int


def look(data: Path, traces: Traces) -> Kept:
    """Compare the file of a stopped server with the log of the load."""
    acknowledged = dict(
        zip(
            _ids((data.parent / "acknowledged").read_bytes()),
            (data.parent / "acknowledged_spans").read_bytes(),
            strict=True,
        )
    )
    sent = set(_ids((data.parent / "sent").read_bytes()))
    (file,) = data.glob("*.duckdb")
    question = "SELECT unhex(trace_id), count(*) FROM span WHERE project = 'bench-agent' GROUP BY trace_id"
    with duckdb.connect(str(file), read_only=True) as connection:
        spans_of: dict[bytes, int] = dict(connection.execute(question).fetchall())
    deleted = {bytes.fromhex(each) for each in traces.deleted}
    maybe_deleted = {bytes.fromhex(each) for each in traces.maybe_deleted}
    return Kept(
        sent=len(sent),
        acknowledged=len(acknowledged),
        deleted=len(deleted),
        lost=sum(spans_of.get(each) != spans for each, spans in acknowledged.items() if each not in maybe_deleted),
        risen=len(deleted & spans_of.keys()),
        strange=len(spans_of.keys() - sent),
        spans=sum(spans_of.values()),
    )


def _ids(text: bytes) -> list[bytes]:
    return [text[start : start + ID_BYTES] for start in range(0, len(text), ID_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A promise, and whether it was kept."""

    promise: str
    holds: bool
    measured: str

    def __str__(self) -> str:
        return f"{'kept  ' if self.holds else 'BROKEN'}  {self.promise}: {self.measured}"


def judge(samples: Sequence[Sample], seconds: float, kept: Kept, answers: Mapping[str, Asked]) -> list[Judgement]:
    """Compare the measurements with the promises."""
    judged = [sample for sample in samples if sample.at_s > JUDGED_FROM * seconds]
    grew, scatter = growth([(sample.at_s, sample.rss_bytes) for sample in judged])
    lag_s = max(sample.lag_s for sample in judged)
    broken = {name: one.statuses["500"] for name, one in answers.items() if "500" in one.statuses}
    return [
        Judgement(
            promise="nothing that was acknowledged is lost",
            holds=kept.acknowledged > 0 and not kept.lost and not kept.strange,
            measured=f"{kept.lost:,} of {kept.acknowledged:,} traces; {kept.spans:,} spans are stored",
        ),
        Judgement(
            promise="what was deleted is gone",
            holds=kept.deleted > 0 and not kept.risen,
            measured=f"{kept.risen:,} of {kept.deleted:,} traces are there",
        ),
        Judgement(
            promise="memory is flat",
            holds=grew < max(scatter, NOISE_BYTES),
            measured=f"it grew by {grew / MIB:+.0f} MiB in {judged[-1].at_s - judged[0].at_s:.0f} s, and scatters by "
            f"{scatter / MIB:.0f} MiB about {np.mean([sample.rss_bytes for sample in judged]) / MIB:.0f} MiB",
        ),
        Judgement(
            promise=f"matching is never {LARGEST_LAG_S:g} s behind",
            holds=lag_s < LARGEST_LAG_S,
            measured=f"at most {lag_s:.1f} s",
        ),
        Judgement(promise="no client gets an internal error", holds=not broken, measured=str(broken or "none")),
    ]


def growth(samples: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Fit a line through samples of (time, memory); return its growth over them, and twice their distance from it."""
    at_s, rss = np.array(samples, float).T
    slope, start = np.polyfit(at_s, rss, 1)
    return float(slope * (at_s[-1] - at_s[0])), float(2 * np.std(rss - (slope * at_s + start)))


def tables(
    samples: Sequence[Sample], answered: Sequence[Mapping[str, Any]], answers: Mapping[str, Asked], seconds: float
) -> str:
    """Format the state over time, and the response times of each kind of client."""
    return "\n".join([*_over_time(samples, answered, seconds), "", *by_client(answers), ""])


def _over_time(samples: Sequence[Sample], answered: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[str]:
    yield (
        "| minutes | life | spans/s | answer ms: p50 / max | told later | memory MiB: mean / max, the server itself "
        "| file MiB | on the disk MiB | matching behind s, max | evaluations waiting |"
    )
    yield "|---|" + "--:|" * 9
    for row in range(ROWS):
        begin_s, end_s = row * seconds / ROWS, (row + 1) * seconds / ROWS
        some = [sample for sample in samples if begin_s <= sample.at_s < end_s]
        lines = [line for line in answered if begin_s <= line["at_s"] < end_s]
        if not some or not lines:
            continue
        rss = np.array([sample.rss_bytes for sample in some]) / MIB
        own = np.array([sample.own_bytes for sample in some]) / MIB
        yield (
            f"| {begin_s / 60:.1f} to {end_s / 60:.1f} | {some[-1].life + 1} "
            f"| {sum(line['spans'] for line in lines) / (end_s - begin_s):,.0f} "
            f"| {np.median([line['p50'] for line in lines]):,.0f} / {max(line['max'] for line in lines):,.0f} "
            f"| {sum(line['refusals'] for line in lines):,} "
            f"| {rss.mean():,.0f} / {rss.max():,.0f}, {own.mean():,.0f} "
            f"| {some[-1].file_bytes / MIB:,.0f} | {some[-1].disk_bytes / MIB:,.0f} "
            f"| {max(sample.lag_s for sample in some):.1f} | {max(sample.jobs for sample in some):,} |"
        )


def by_client(answers: Mapping[str, Asked]) -> Iterator[str]:
    """Format the responses to each kind of client, a row for each."""
    yield "| client | successes | ms: p50 / p99 / max | other responses |"
    yield "|---|--:|--:|---|"
    for name, one in answers.items():
        took = np.percentile(one.took_ms or [0.0], (50, 99, 100))
        others = ", ".join(f"{status}: {count}" for status, count in sorted(one.statuses.items()))
        yield f"| {name} | {len(one.took_ms):,} | {took[0]:,.0f} / {took[1]:,.0f} / {took[2]:,.0f} | {others or '-'} |"
    for name, one in answers.items():
        yield from (f"{name}, the first {status}: {text}" for status, text in sorted(one.texts.items()) if text)
