"""`tracejury metric-monitors`: list monitors of metrics, and apply a file of them."""

from pathlib import Path
from typing import Any

import click
from rich.text import Text

from collector.api.responses.wire import WireDocument
from collector.cli.client import open_server, open_source
from collector.cli.options import one_source, read_yaml, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.units import metric_text

_PATH = "/api/v1/metric-monitors"


class MetricMonitorView(WireDocument):
    """A monitor of a metric as it is printed."""

    id: str
    name: str
    metric: str
    unit: str
    above: float | None
    below: float | None
    severity: str
    standing: str
    value: float | None
    count: int
    open_alert_id: str | None


@click.group("metric-monitors")
def metric_monitors() -> None:
    """Get alerts when errors, latency, cost, volume or budgets leave their limits."""


@metric_monitors.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_metric_monitors(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List metric monitors with their state."""
    one_source(server, data)
    with open_source(server, data) as client:
        documents = client.whole(_PATH)
    if as_json:
        print_json(documents)
    else:
        _print(parse_response(list[MetricMonitorView], documents))


@metric_monitors.command()
@click.argument("file", metavar="MONITORS.yaml", type=click.Path(path_type=Path))
@source_options
def apply(*, file: Path, server: str | None, data: Path | None) -> None:
    """Apply metric monitors from a file with a YAML list. Monitors with the same name are updated."""
    one_source(server, data)
    monitors = read_yaml(file)
    if not isinstance(monitors, list) or not all(isinstance(each, dict) for each in monitors):
        raise click.ClickException("the file has to be a YAML list of monitors, each one beginning with `- name: …`")
    documents: list[dict[str, Any]] = monitors  # type: ignore[assignment] # as checked
    with open_server(server, data) as client:
        existing: dict[str, dict[str, Any]] = {each["name"]: each for each in client.whole(_PATH)}  # type: ignore[index, misc] # of our API
        for each in documents:
            known = existing.get(str(each.get("name")))
            if known is None:
                client.post(_PATH, each)
            elif _differs(known, each) or _says_more(known, each):
                client.put(f"{_PATH}/{path_segment(known['id'])}", each)
    click.echo(f"{len(monitors)} watched")


@metric_monitors.command()
@click.argument("name")
@source_options
def delete(*, name: str, server: str | None, data: Path | None) -> None:
    """Delete a metric monitor."""
    one_source(server, data)
    with open_server(server, data) as client:
        views = parse_response(list[MetricMonitorView], client.whole(_PATH))
        known = [each.id for each in views if name in {each.name, each.id}]
        if not known:
            raise click.ClickException(f"no metric monitor {one_line(name)} here")
        client.delete(f"{_PATH}/{path_segment(known[0])}")
    click.echo("deleted")


def _differs(known: dict[str, Any], described: dict[str, Any]) -> bool:
    from collector.metric_monitor_text import metric_named

    # A former name of the metric is not a change: a changed monitor would begin again.
    known, described = ({**each, "metric": metric_named(each.get("metric"))} for each in (known, described))
    return any(known.get(key) != value for key, value in described.items())


def _says_more(known: dict[str, Any], described: dict[str, Any]) -> bool:
    # Also replace a monitor that has an optional key which the file omits.
    optional = ("project", "release", "model", "tool", "rule", "connection", "above", "below", "change")
    return any(known.get(key) is not None and key not in described for key in optional)


def _print(monitors: list[MetricMonitorView]) -> None:
    console = output_console()
    if not monitors:
        console.print("no metrics are watched here")
        return
    table = list_table()
    for title in ("NAME", "METRIC", "NOW", "OF", "LIMIT", "SEVERITY", "STATE", "ALERT"):
        table.add_column(title, no_wrap=True, justify="right" if title in {"NOW", "OF"} else "left")
    for each in monitors:
        value = "-" if each.value is None else metric_text(each.value, each.unit)
        texts = (each.name, each.metric, value, str(each.count), _limit(each), each.severity, each.standing)
        table.add_row(*(Text(one_line(text)) for text in texts), Text(one_line(each.open_alert_id or "-")))
    print_list(console, table)


def _limit(view: MetricMonitorView) -> str:
    if view.above is not None:
        return f"above {metric_text(view.above, view.unit)}"
    return "change" if view.below is None else f"below {metric_text(view.below, view.unit)}"
