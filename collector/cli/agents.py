"""`tracejury agents`: agents now, a day and a week earlier."""

from pathlib import Path

import click
from rich.text import Text

from collector.api.responses.agents import AgentDocument, AgentList, AgentNumbersDocument
from collector.cli.client import open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.escaping import one_line
from collector.units import duration_text, usd_text

_LEFT = ("AGENT", "SERVICE", "PROJECT", "WORST TRACE")
_TITLES = (*_LEFT[:3], "TRACES", "ERRORS", "1 D", "7 D", "P95", "COST", "PASSED", "TOKENS", "ALERTS", _LEFT[3])


@click.command()
@click.option(
    "--period", type=click.Choice(["hour", "day", "week"]), default="day", show_default=True, help="The time until now."
)
@click.option("--project", metavar="NAME", help="Only agents of this project.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def agents(
    *, period: str, project: str | None, limit: int, as_json: bool, server: str | None, data: Path | None
) -> None:
    """List agents, those with more failed traces than before first.

    The columns 1 D and 7 D are the change of ERRORS in percentage points, against a day and a week earlier.
    """
    one_source(server, data)
    with open_source(server, data) as client:
        answer = client.get("/api/v1/agents", period=period, project=project, size=limit)
    if as_json:
        print_json(answer["agents"] if isinstance(answer, dict) and "agents" in answer else answer)
    else:
        _print(parse_response(AgentList, answer))


def _print(listed: AgentList) -> None:
    console = output_console()
    if not listed.agents:
        console.print("no agents here in this time")
        return
    table = list_table()
    for title in _TITLES:
        table.add_column(title, no_wrap=True, justify="left" if title in _LEFT else "right")
    for each in listed.agents:
        table.add_row(*(Text(one_line(text)) for text in _row(each)))
    print_list(console, table)
    if not listed.named:
        console.print("there are too many spans to tell the agents of a service apart")
    if listed.truncated:
        console.print("there are more; --limit shows them")


def _row(agent: AgentDocument) -> tuple[str, ...]:
    now = agent.now
    return (
        agent.agent_name or agent.service_name or "-",
        agent.service_name or "-",
        agent.project_name or "-",
        str(now.traces),
        _share(now.error_rate),
        _change(now, agent.day_earlier),
        _change(now, agent.week_earlier),
        duration_text(None if now.p95_ms is None else float(now.p95_ms)),
        "-" if now.cost_usd is None else usd_text(float(now.cost_usd)),
        _share(now.pass_rate),
        "-" if now.tokens is None else str(now.tokens),
        str(len(agent.open_alert_ids)),
        next((trace.trace_id for trace in agent.worst), "-"),
    )


def _share(share: float | str | None) -> str:
    return "-" if share is None else f"{100 * float(share):.1f} %"


def _change(now: AgentNumbersDocument, before: AgentNumbersDocument | None) -> str:
    if before is None or now.error_rate is None or before.error_rate is None:
        return "-"
    return f"{100 * (float(now.error_rate) - float(before.error_rate)):+.1f}"
