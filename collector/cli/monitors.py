"""`tracejury monitors`: streams of results, and detection of drops."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from collector.cli.client import open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json, print_json_line
from collector.cli.responses import parse_response

if TYPE_CHECKING:
    from rules.statistics.events import EpisodeEvent, StreamRate
    from rules.statistics.monitor import Monitor
    from rules.statistics.settings import MonitorSettings


@click.group(invoke_without_command=True)
@click.option("--project", metavar="NAME", help="Only results of this project.")
@click.option("--rule", metavar="RULE", help="Only results of this rule, by name or id.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
@click.pass_context
def monitors(
    context: click.Context,
    /,
    *,
    as_json: bool,
    limit: int,
    server: str | None,
    data: Path | None,
    **filters: str | None,
) -> None:
    """List the monitors that watch each rule's results for drops of quality, with their state."""
    if context.invoked_subcommand is not None:
        return
    from collector.api.responses.alerting import StreamDocument
    from collector.cli.monitor_text import print_monitors

    one_source(server, data)
    with open_source(server, data) as client:
        documents = client.listed("/api/v1/monitors", limit, **filters)
    if as_json:
        print_json(documents)
    else:
        print_monitors(parse_response(list[StreamDocument], documents))


@monitors.command()
@click.argument("file", metavar="SCORES.jsonl")
@click.option("--alpha", type=float, help="Probability of a false alarm per release. [default: 0.05]")
@click.option("--margin", type=float, help="Minimum drop. [default: 0.01]")
@click.option("--minimum", type=int, help="Minimum number of results of a release or a baseline. [default: 10]")
@click.option("--baseline", type=int, help="Number of latest baseline results. [default: 2000]")
@click.option("--every", type=int, help="Minimum mean number of results between false drift alarms. [default: 100000]")
@click.option("--off", type=click.Choice(["release", "drift"]), multiple=True, help="Disable this monitor.")
@click.option("--lower-is-better", is_flag=True, default=None, help="Lower scores are better.")
def replay(file: str, **options: Any) -> None:
    """Replay results from a file through monitors, and print the alarms of each stream as a line of JSON.

    Each line of the file is a result, in order: {"stream": …, "release": …, "passed": …, "score": …}. - reads standard
    input; gzip is supported.
    """
    from collector.cli.score_lines import read_results
    from rules.statistics.monitor import Monitor

    settings = _settings(options)
    streams: dict[str, tuple[Monitor, list[EpisodeEvent]]] = {}
    for stream, result in read_results(file):
        known = streams.get(stream)
        if known is None:
            known = streams[stream] = (Monitor(settings), [])
        event = known[0].add(result)
        if event is not None:
            known[1].append(event)
    for stream, (monitor, events) in streams.items():
        print_json_line(_stream_document(stream, monitor, events))


def _settings(options: dict[str, Any]) -> "MonitorSettings":
    from rules.statistics.settings import MonitorSettings

    values = {name: value for name, value in options.items() if value is not None}
    try:
        return MonitorSettings(**{**values, "off": frozenset(values["off"])})
    except ValueError as error:
        raise click.UsageError(f"--{error}") from error


def _stream_document(stream: str, monitor: "Monitor", events: "list[EpisodeEvent]") -> dict[str, Any]:
    state = monitor.state
    alarms: list[dict[str, Any]] = []
    for event in events:
        if event.change == "opened":
            alarms.append(_alarm_document(event))
        elif event.change == "escalated":
            alarms[-1]["escalated"].append({"at": event.at, "candidate": _rate_document(event.candidate)})
        else:
            alarms[-1]["ended"] = {"at": event.at, "how": event.change}
    return {
        "stream": stream,
        "results": state.results,
        "scored": state.scored,
        "measure": state.measure,
        "alarms": alarms,
    }


def _alarm_document(event: "EpisodeEvent") -> dict[str, Any]:
    return {
        "kind": event.kind,
        "at": event.at,
        "release": event.release,
        "against": list(event.against),
        "baseline": _rate_document(event.baseline),
        "candidate": _rate_document(event.candidate),
        "evidence": float(f"{event.evidence:.4g}"),
        "threshold": float(f"{event.threshold:.4g}"),
        "escalated": [],
        "ended": None,
    }


def _rate_document(rate: "StreamRate") -> dict[str, Any]:
    return {
        "results": rate.count,
        "rate": round(rate.mean, 6),
        "low": round(rate.interval.low, 6),
        "high": round(rate.interval.high, 6),
    }
