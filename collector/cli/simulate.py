"""`tracejury simulate`: simulated users talk to an application, as a file says."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from collector.cli.render import counting, print_json, print_table
from collector.cli.views import ColumnView, TableView
from collector.escaping import one_line
from collector.units import count_text, usd_text

if TYPE_CHECKING:
    from collector.simulating.plan import SimulationPlan
    from tracejury.simulation import Simulated, SimulationResult

_BROKE_OFF: Final = 1
_NOT_WHOLE: Final = 2
_ERRORS: Final = ("agent", "simulator")
_TEXT, _NUMBER = "VARCHAR", "BIGINT"
_COLUMNS: Final = (
    ("scenario", _TEXT),
    ("conversations", _NUMBER),
    ("turns", _NUMBER),
    ("ended by", _TEXT),
    ("errors", _TEXT),
)


class NotSimulated(click.ClickException):
    """The simulation failed or is incomplete."""

    exit_code = _NOT_WHOLE


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--journal", type=click.Path(path_type=Path, dir_okay=False), help="File for the conversations.")
@click.option(
    "--goldens", type=click.Path(path_type=Path, dir_okay=False), help="File for the conversations as dataset items."
)
@click.option("--trials", type=click.IntRange(1, 10_000), help="Trials per scenario.")
@click.option("--server", metavar="URL", help="The server that receives the spans. [default: TRACEJURY_URL]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def simulate(context: click.Context, /, *, file: Path, as_json: bool, **options: Any) -> None:
    """Run conversations of simulated users with a command or an endpoint, and record them.

    FILE defines the scenarios in YAML. Each conversation is appended to the journal at its end. A repeated command
    continues with the missing ones.
    """
    from collector.plan_file import BadPlan, read_plan_file
    from collector.simulating.plan import SimulationPlan
    from tracejury.goldens import write_goldens

    try:
        plan = read_plan_file(file, SimulationPlan)
        if options["trials"] is not None:
            plan = plan.model_copy(update={"trials": options["trials"]})
        journal = options["journal"] or file.with_suffix(".conversations.jsonl")
        result = _simulated(plan, file.absolute().parent, journal, options["server"])
    except BadPlan as error:
        raise NotSimulated(f"{file}: {one_line(str(error))}") from None
    if options["goldens"] is not None:
        write_goldens(options["goldens"], result.goldens())
    if as_json:
        print_json(_document(result))
    else:
        _print(result)
        click.echo(f"the conversations are in {one_line(str(journal))}", err=True)
    if result.left:
        click.echo(f"{len(result.left)} conversations are left; raise the budget, and run it again", err=True)
    context.exit(_NOT_WHOLE if result.left else _BROKE_OFF if any(map(result.errors, _ERRORS)) else 0)


def _simulated(plan: "SimulationPlan", folder: Path, journal: Path, server: str | None) -> "SimulationResult":
    from collector.plan_file import BadPlan
    from collector.settings_loading import environment_variable
    from collector.simulating.making import simulation_of
    from tracejury.journal import JournalInUse
    from tracejury.tracing import init

    simulation = simulation_of(plan, folder, environment_variable, journal)
    init(plan.project or plan.simulation, url=server)
    with _progress() as progress:
        try:
            return asyncio.run(replace(simulation, progress=progress).run_async())
        except (JournalInUse, ValueError) as error:
            raise BadPlan(str(error)) from None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    with counting("conversations") as advance:
        yield lambda _done, _of: advance()


def _document(result: "SimulationResult") -> dict[str, Any]:
    return {
        "simulation": result.name,
        "conversations": len(result.simulated),
        "resumed": result.resumed,
        "left": [{"key": key, "trial": trial} for key, trial in result.left],
        "stopReasons": result.stop_reasons(),
        "agentErrors": len(result.errors("agent")),
        "simulatorErrors": len(result.errors("simulator")),
        "spent": dict(result.spent),
    }


def _print(result: "SimulationResult") -> None:
    rows: dict[str, list[Simulated]] = {}
    for each in result.simulated:
        rows.setdefault(each.scenario.key, []).append(each)
    columns = tuple(ColumnView(name=name, type=of) for name, of in _COLUMNS)
    table = tuple(_row(key, runs) for key, runs in rows.items())
    print_table(TableView(columns=columns, rows=table, truncated=False))
    spent = result.spent
    usd = "" if spent["costUsd"] is None else f", {usd_text(spent['costUsd'])}"
    click.echo(
        f"{count_text(spent['calls'], 'call')}, {spent['tokensIn']:,} tokens in + {spent['tokensOut']:,} out{usd}"
    )
    for source in _ERRORS:
        for each in result.errors(source)[:3]:
            place = f"{each.scenario.key}, trial {each.trial}"
            click.echo(f"error of the {source}: {one_line(place)}: {one_line(str(each.conversation.error))}", err=True)


def _row(key: str, runs: "list[Simulated]") -> tuple[object, ...]:
    reasons = [each.conversation.stop_reason for each in runs]
    errors = [each.conversation.error_source for each in runs]
    turns = sum(each.conversation.trajectory.turn_count for each in runs)
    ended = ", ".join(f"{reason} {reasons.count(reason)}" for reason in dict.fromkeys(reasons))
    failed = ", ".join(f"{source} {errors.count(source)}" for source in dict.fromkeys(errors) if source is not None)
    return (one_line(key), len(runs), turns, ended, failed or "none")
