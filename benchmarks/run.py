"""`make bench`: run the measurements and print the results."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from benchmarks import machine, report, server
from benchmarks.checking import CHECKS, TRACES, measure_checking
from benchmarks.dashboards import measure_dashboards
from benchmarks.evaluations import EVALUATE_SECONDS, measure_evaluators
from benchmarks.generator import Door, Generator
from benchmarks.large import measure_large
from benchmarks.matching import MATCHED_SPANS, measure_matching
from benchmarks.scenarios import Bench, Scenario, measure, measure_overload
from benchmarks.small import LOAD_S, measure_small
from benchmarks.sustained import SECONDS, measure_sustained

LOADS: Final[dict[str, tuple[Door, int]]] = {
    "grpc-512": ("grpc", 512),
    "grpc-10": ("grpc", 10),
    "http-512": ("http", 512),
    "http-10": ("http", 10),
}
OTHERS: Final = (
    "baseline",
    "overload",
    "large",
    "evaluators",
    "matching",
    "checking",
    "dashboards",
    "sustained",
    "small",
)
SENDERS: Final = 32
OVERLOAD_SENDERS: Final = 64
LARGE_SPANS: Final = 10_000_000
SMOKE_SECONDS: Final = 0.4
SMOKE_POOL_SPANS: Final = 1_024
SMOKE_STORED: Final = 20_000
SMOKE_TRACES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Choice of measurements."""

    seconds: float
    senders: int
    pool_spans: int
    names: Sequence[str]
    matched: int  # spans of the measurement of rules
    traces: int  # that are checked
    sustained_s: float  # of each rate that may be kept up
    stored: int | None  # spans of the large measurement; None: without it

    def wants(self, name: str) -> bool:
        """Return True if a measurement was chosen; without names all are."""
        return not self.names or name in self.names


def run(choice: Choice, directory: Path) -> report.Report:
    """Measure one thing after the other, each with a server of its own below the directory."""
    described = machine.describe(directory)
    evaluations = measure_evaluators(min(choice.seconds, EVALUATE_SECONDS)) if choice.wants("evaluators") else []
    matching = measure_matching(directory, choice.matched) if choice.wants("matching") else None
    targets = CHECKS if choice.wants("checking") else ()
    checking = [measure_checking(directory / f"checking-{target}", choice.traces, target) for target in targets]
    with Generator(pool_spans=choice.pool_spans) as generator:
        bench = Bench(generator=generator, directory=directory, seconds=choice.seconds, senders=choice.senders)
        scenarios = [
            _announced(name, measure(bench, name, server.tracejury, door, spans))
            for name, (door, spans) in LOADS.items()
            if choice.wants(name)
        ]
        baseline = overload = large = None
        if choice.wants("baseline"):
            baseline = _announced("baseline", measure(bench, "baseline", server.baseline, "grpc", 512))
        if choice.wants("overload"):
            overload = _announced("overload", measure_overload(bench, "overload", server.tracejury, OVERLOAD_SENDERS))
        dashboards = measure_dashboards(bench) if choice.wants("dashboards") else []
        sustained = measure_sustained(bench, choice.sustained_s) if choice.wants("sustained") else []
        small = measure_small(bench, min(choice.sustained_s, LOAD_S)) if choice.wants("small") else None
        if choice.stored is not None:
            large = measure_large(bench, server.tracejury, choice.stored)
    return report.Report(
        machine=described,
        seconds=choice.seconds,
        scenarios=scenarios,
        baseline=baseline,
        overload=overload,
        large=large,
        evaluations=evaluations,
        matching=matching,
        checking=checking,
        dashboards=dashboards,
        sustained=sustained,
        small=small,
    )


def _announced(name: str, scenario: Scenario) -> Scenario:
    full = scenario.full
    click.echo(f"{name}: {full.committed_per_s:,.0f} spans/s, {full.cpu_us_per_span:.1f} µs of CPU a span", err=True)
    return scenario


@click.command()
@click.option("--seconds", type=click.FloatRange(min=0.2), default=15.0, show_default=True, help="Length of each load.")
@click.option(
    "--smoke", is_flag=True, help="Less than a second each, to see that all of it works; the numbers mean little."
)
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice([*LOADS, *OTHERS]),
)
@click.option(
    "--large",
    "stored",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=LARGE_SPANS,
    help=f"Also measure with many spans stored, {LARGE_SPANS:,} if no number is given; this takes a while.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every number to this file.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory for the servers' data, on the disk to measure. Default: the system's temporary directory.",
)
def main(
    seconds: float,
    smoke: bool,  # noqa: FBT001 - click calls this
    names: tuple[str, ...],
    stored: int | None,
    json_file: Path | None,
    directory: Path | None,
) -> None:
    """Measure ingest, reads, evaluators and rules, and print the tables as Markdown."""
    if stored is None and "large" in names:
        stored = LARGE_SPANS
    choice = Choice(
        seconds=SMOKE_SECONDS if smoke else seconds,
        senders=SENDERS,
        pool_spans=SMOKE_POOL_SPANS if smoke else 16_384,
        traces=SMOKE_TRACES if smoke else TRACES,
        sustained_s=SMOKE_SECONDS if smoke else SECONDS,
        names=names,
        matched=SMOKE_STORED if smoke else MATCHED_SPANS,
        stored=min(stored, SMOKE_STORED) if smoke and stored else stored,
    )
    with tempfile.TemporaryDirectory(prefix="tracejury-bench-", dir=directory) as matcher_db:
        measured = run(choice, Path(matcher_db))
    if json_file:
        json_file.write_text(report.to_json(measured))
    print(report.to_markdown(measured))


if __name__ == "__main__":
    main()
