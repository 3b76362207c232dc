"""`tracejury experiments`: runs of experiments, their results, and evaluations of them."""

import time
from pathlib import Path
from typing import Any, Final

import click

from collector.api.responses.offline import BegunRun, ExperimentDocument, RunDocument, RunEvaluationDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.deciding import (
    allow_removed_option,
    decide_on_server,
    exit_code_of,
    server_options,
    with_deciding_options,
)
from collector.cli.experiment_run import run_file
from collector.cli.gate import NO_BASELINE, exiting_as_gate
from collector.cli.options import one_source, server_option, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.cli.run_files import FORMS, form_of, server_of_command, write_run
from collector.cli.run_text import RATE_HEADS, print_rows, print_run, rate_cells, status_cell
from collector.cli.verdict_text import print_verdict
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.result_labels import NO_VERDICT, SKIPPED
from collector.units import usd_text

_LOOK_S: Final = 0.5
_ITEMS_AT_ONCE: Final = 100  # per request; a guess: few items are larger than 80 kB

_OPEN: Final = frozenset({"WAITING", "RUNNING"})


json_option = click.option("--json", "as_json", is_flag=True, help="The response of the server, as JSON.")


@click.group()
def experiments() -> None:
    """Run an application over the cases of a dataset, and show the results."""


experiments.add_command(run_file)


@experiments.command("list")
@click.argument("project")
@json_option
@source_options
def list_experiments(*, project: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """List the experiments of a project, each with its latest run."""
    one_source(server, data)
    with open_source(server, data) as client:
        documents = _experiments(client, project)
    if as_json:
        print_json(documents)
        return
    rows = []
    for each in parse_response(list[ExperimentDocument], documents):
        run = each.latest_run
        cells = (None,) * 6 if run is None else (run.run_id, status_cell(run), *rate_cells(run), run.started_at[:19])
        rows.append((each.name, *cells))
    print_rows(("experiment", "latest run", "status", *RATE_HEADS, "began (UTC)"), rows)


@experiments.command()
@click.argument("project")
@click.argument("experiment")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="At most this many.")
@json_option
@source_options
def runs(*, project: str, experiment: str, limit: int, as_json: bool, server: str | None, data: Path | None) -> None:
    """List the runs of an experiment, newest first."""
    one_source(server, data)
    with open_source(server, data) as client:
        known = parse_response(list[ExperimentDocument], _experiments(client, project))
        ids = [each.id for each in known if experiment in {each.name, each.id}]
        if not ids:
            raise click.ClickException(f"project {one_line(project)} has no experiment {one_line(experiment)}")
        documents = client.get(f"/api/v1/experiments/{ids[0]}/runs", size=limit)
    if as_json or not isinstance(documents, list):
        print_json(documents)
        return
    rows = []
    for run in parse_response(list[RunDocument], documents):
        cost = None if run.cost_usd is None else usd_text(run.cost_usd)
        dataset = "" if run.dataset_name is None else f"{run.dataset_name}@{run.dataset_version}"
        cells = (run.id, status_cell(run), run.item_count, *rate_cells(run), cost, dataset, run.git_branch)
        rows.append((*cells, run.started_at[:19]))
    print_rows(("run", "status", "items", *RATE_HEADS, "cost", "dataset", "branch", "began (UTC)"), rows)


@experiments.command()
@click.argument("run")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="Items to show.")
@click.option(
    "--outcome",
    type=click.Choice(["passed", "not_passed", "error", "not_evaluated", "unjudged"]),
    help="Only items with this outcome.",
)
@json_option
@source_options
def show(*, run: str, limit: int, outcome: str | None, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show a run: totals, results by evaluator, and items."""
    one_source(server, data)
    with open_source(server, data) as client:
        document = client.get(f"/api/v1/runs/{path_segment(run)}", size=limit, outcome=outcome)
    if as_json:
        print_json(document)
        return
    print_run(document)


@experiments.command()
@click.argument("run")
@click.option("--evaluator", required=True, metavar="NAME", help="Evaluator to use; `tracejury evaluators` lists them.")
@click.option("--config", metavar="JSON", help="Its configuration.")
@click.option("--name", metavar="NAME", help="Name of the scores.")
@click.option("--connection", metavar="NAME", help="The connection of its judge.")
@click.option("--jury", multiple=True, metavar="NAME", help="Connection of a further judge of the jury; repeatable.")
@click.option("--wait", is_flag=True, help="Wait for the end; exits with 1 if there are no verdicts.")
@server_option
def evaluate(*, run: str, server: str, wait: bool, **options: Any) -> None:
    """Evaluate the items of a run on the server, without running the application again."""
    from evaluators.wire import parse_json

    try:
        config = parse_json(options["config"] or "null")
    except ValueError as error:
        raise click.UsageError(f"--config is not JSON: {error}") from None
    body = {"config": config, "connectionId": options["connection"], "jury": [*options["jury"]] or None}
    body |= {name: options[name] for name in ("evaluator", "name")}
    place = f"/api/v1/runs/{path_segment(run)}/evaluations"
    with open_server(server, None) as client:
        made, waits = parse_response(RunEvaluationDocument, client.post(place, body)), None
        while wait and made.status in _OPEN:
            if made.last_error is not None and made.last_error != waits:
                waits = made.last_error
                click.echo(f"{made.status}: {one_line(waits)}", err=True)
            time.sleep(_LOOK_S)
            evaluations = parse_response(list[RunEvaluationDocument], client.get(place))
            made = next((each for each in evaluations if each.id == made.id), made)
    counts = f"{made.scored_count} scored, {made.failed_count} {NO_VERDICT}, {made.skipped_count} {SKIPPED}"
    click.echo(f"evaluation {made.id} ({one_line(made.evaluator_name)}): {made.status}, {counts}")
    if made.last_error is not None:
        raise click.ClickException(one_line(made.last_error))
    if wait and made.status != "DONE":
        raise click.ClickException(f"the evaluation is {made.status}")


@experiments.command()
@click.argument("run")
@click.option("--baseline", metavar="RUN", help="Baseline run. [default: the latest comparable run]")
@click.option("--branch", metavar="NAME", help="Branch of the baseline. [default: the branch of RUN]")
@with_deciding_options
@click.option("--fail-on-inconclusive", is_flag=True, help="Exit with 3 if the result is inconclusive.")
@click.option("--require-baseline", is_flag=True, help="Exit with 4 if there is no run to compare with.")
@allow_removed_option
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@server_option
@click.pass_context
def gate(context: click.Context, /, *, run: str, server: str, as_json: bool, **options: Any) -> None:
    """Compare a run with an earlier run of its experiment, and report regressions.

    Exits with 0 if it passes or has no baseline, 1 if it regressed, 2 if it cannot be compared, 3 if nothing was judged
    or, with --fail-on-inconclusive, if it is inconclusive, 4 if it has no baseline and --require-baseline is set.
    """
    with exiting_as_gate(), open_server(server, None) as client:
        body = {
            "baselineRunId": options["baseline"],
            "baselineBranch": options["branch"],
            **server_options(options),
        }
        document = decide_on_server(client, run, body)
    if as_json:
        print_json(document)
    else:
        print_verdict(document)
    if not document["passed"]:
        context.exit(exit_code_of(document["verdict"]))
    if document["status"] == "NO_BASELINE" and options["require_baseline"]:
        context.exit(NO_BASELINE)


@experiments.command()
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--format", "form", type=click.Choice([*FORMS]), help="By default from the file extension.")
@server_option
def export(*, run: str, file: Path, form: str | None, server: str) -> None:
    """Export a run to a file: JSON (which the gate reads), CSV, Markdown, HTML or JUnit XML."""
    write_run(server, run, file, form)


@experiments.command()
@click.argument("results", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--format", "form", type=click.Choice([*FORMS]), help="By default from the file extension.")
def report(*, results: Path, file: Path, form: str | None) -> None:
    """Export results of the SDK to a file, as `export` does, without a server.

    RESULTS contains a run and its reported `items`; `result.export` of the SDK writes it.
    """
    from evaluators.wire import parse_json

    chosen = form_of(file, form)
    try:
        document = parse_json(results.read_text(encoding="utf-8"))
        items = document.pop("items")
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise click.ClickException(f"{one_line(str(results))} holds no results: {one_line(str(error))}") from None
    with server_of_command() as server, open_server(server, None) as client:
        run_id = parse_response(BegunRun, client.post("/api/v1/projects/default/runs", document)).run_id
        place = f"/api/v1/runs/{run_id}"
        for first in range(0, len(items), _ITEMS_AT_ONCE):
            client.post(f"{place}/items", {"items": items[first : first + _ITEMS_AT_ONCE]})
        client.patch(place, {"status": "SUCCESS"})
        write_run(server, run_id, file, chosen)


def _experiments(client: ServerClient, project: str) -> list[object]:
    return client.whole(f"/api/v1/projects/{path_segment(project)}/experiments")
