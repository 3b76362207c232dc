"""What a soak measured, as tables, and whether what is promised was kept."""

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
for some five minutes until they have what they keep: DuckDB its memory, and each what Python and Arrow free late."""

LARGEST_LAG_S: Final = 60.0
"""Of matching, by the server's own measure of being behind."""

NOISE_BYTES: Final = 48 << 20
"""What memory may grow over the judged time, if it scatters less than that. What DuckDB keeps of each row group that it
wrote, some 80 kB, is freed every 256 row groups only."""

ROWS: Final = 12
ID_BYTES: Final = 16
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How things stood at one moment."""

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
    """What is in the file at the end, against what was acknowledged. Counts are of traces, but for the last."""

    sent: int
    acknowledged: int
    deleted: int
    lost: int  # acknowledged, not deleted, and not there with all its spans
    risen: int  # deleted, and there
    strange: int  # there, and never sent
    spans: int


def look(data: Path, traces: Traces) -> Kept:
    """Compare the file of a server that has ended with what the load wrote down."""
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
        there: dict[bytes, int] = dict(connection.execute(question).fetchall())
    deleted = {bytes.fromhex(each) for each in traces.deleted}
    maybe_deleted = {bytes.fromhex(each) for each in traces.maybe_deleted}
    return Kept(
        sent=len(sent),
        acknowledged=len(acknowledged),
        deleted=len(deleted),
        lost=sum(there.get(each) != spans for each, spans in acknowledged.items() if each not in maybe_deleted),
        risen=len(deleted & there.keys()),
        strange=len(there.keys() - sent),
        spans=sum(there.values()),
    )


def _ids(text: bytes) -> list[bytes]:
    return [text[start : start + ID_BYTES] for start in range(0, len(text), ID_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One thing that is promised, and how it went."""

    promise: str
    holds: bool
    told: str

    def __str__(self) -> str:
        return f"{'kept  ' if self.holds else 'BROKEN'}  {self.promise}: {self.told}"


def judge(samples: Sequence[Sample], seconds: float, kept: Kept, asked: Mapping[str, Asked]) -> list[Judgement]:
    """Hold what was measured to what is promised."""
    judged = [sample for sample in samples if sample.at_s > JUDGED_FROM * seconds]
    grew, scatter = growth([(sample.at_s, sample.rss_bytes) for sample in judged])
    lag_s = max(sample.lag_s for sample in judged)
    broken = {name: one.statuses["500"] for name, one in asked.items() if "500" in one.statuses}
    return [
        Judgement(
            promise="nothing that was acknowledged is lost",
            holds=kept.acknowledged > 0 and not kept.lost and not kept.strange,
            told=f"{kept.lost:,} of {kept.acknowledged:,} traces; {kept.spans:,} spans are stored",
        ),
        Judgement(
            promise="what was deleted is gone",
            holds=kept.deleted > 0 and not kept.risen,
            told=f"{kept.risen:,} of {kept.deleted:,} traces are there",
        ),
        Judgement(
            promise="memory is flat",
            holds=grew < max(scatter, NOISE_BYTES),
            told=f"it grew by {grew / MIB:+.0f} MiB in {judged[-1].at_s - judged[0].at_s:.0f} s, and scatters by "
            f"{scatter / MIB:.0f} MiB about {np.mean([sample.rss_bytes for sample in judged]) / MIB:.0f} MiB",
        ),
        Judgement(
            promise=f"matching is never {LARGEST_LAG_S:g} s behind",
            holds=lag_s < LARGEST_LAG_S,
            told=f"at most {lag_s:.1f} s",
        ),
        Judgement(promise="nobody is told of an internal error", holds=not broken, told=str(broken or "none")),
    ]


def growth(samples: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Fit a line through samples of (time, memory); return its growth over them, and twice their distance from it."""
    at_s, rss = np.array(samples, float).T
    slope, start = np.polyfit(at_s, rss, 1)
    return float(slope * (at_s[-1] - at_s[0])), float(2 * np.std(rss - (slope * at_s + start)))


def tables(
    samples: Sequence[Sample], answered: Sequence[Mapping[str, Any]], asked: Mapping[str, Asked], seconds: float
) -> str:
    """How things stood over time, and how long each kind of client waited."""
    return "\n".join([*_over_time(samples, answered, seconds), "", *by_client(asked), ""])


def _over_time(samples: Sequence[Sample], answered: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[str]:
    yield (
        "| minutes | life | spans/s | answer ms: p50 / max | told later | memory MiB: mean / max, the server itself "
        "| file MiB | on the disk MiB | matching behind s, max | evaluations waiting |"
    )
    yield "|---|" + "--:|" * 9
    for row in range(ROWS):
        begin_s, end_s = row * seconds / ROWS, (row + 1) * seconds / ROWS
        some = [sample for sample in samples if begin_s <= sample.at_s < end_s]
        told = [line for line in answered if begin_s <= line["at_s"] < end_s]
        if not some or not told:
            continue
        rss = np.array([sample.rss_bytes for sample in some]) / MIB
        own = np.array([sample.own_bytes for sample in some]) / MIB
        yield (
            f"| {begin_s / 60:.1f} to {end_s / 60:.1f} | {some[-1].life + 1} "
            f"| {sum(line['spans'] for line in told) / (end_s - begin_s):,.0f} "
            f"| {np.median([line['p50'] for line in told]):,.0f} / {max(line['max'] for line in told):,.0f} "
            f"| {sum(line['refusals'] for line in told):,} "
            f"| {rss.mean():,.0f} / {rss.max():,.0f}, {own.mean():,.0f} "
            f"| {some[-1].file_bytes / MIB:,.0f} | {some[-1].disk_bytes / MIB:,.0f} "
            f"| {max(sample.lag_s for sample in some):.1f} | {max(sample.jobs for sample in some):,} |"
        )


def by_client(asked: Mapping[str, Asked]) -> Iterator[str]:
    """Write what each kind of client was answered, a row for each."""
    yield "| client | successes | ms: p50 / p99 / max | other responses |"
    yield "|---|--:|--:|---|"
    for name, one in asked.items():
        took = np.percentile(one.took_ms or [0.0], (50, 99, 100))
        others = ", ".join(f"{status}: {count}" for status, count in sorted(one.statuses.items()))
        yield f"| {name} | {len(one.took_ms):,} | {took[0]:,.0f} / {took[1]:,.0f} / {took[2]:,.0f} | {others or '-'} |"
    for name, one in asked.items():
        yield from (f"{name}, the first {status}: {text}" for status, text in sorted(one.said.items()) if text)
