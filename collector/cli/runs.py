"""`tracejury runs`: compare stored runs again without running anything, and pin them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from collector.cli.client import open_server
from collector.cli.deciding import (
    allow_removed_option,
    decide_on_server,
    engine_options,
    exit_code_of,
    server_options,
    with_deciding_options,
)
from collector.cli.gate import BadGateInput, exiting_as_gate
from collector.cli.options import server_option
from collector.cli.render import print_json
from collector.cli.verdict_text import print_verdict
from collector.escaping import one_line
from collector.path_names import path_segment


@click.group()
def runs() -> None:
    """Work with stored runs of experiments."""


@runs.command()
@click.argument("baseline")
@click.argument("candidate")
@with_deciding_options
@click.option("--fail-on-inconclusive", is_flag=True, help="Exit with 3 if the result is inconclusive.")
@allow_removed_option
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@server_option
@click.pass_context
def compare(context: click.Context, /, baseline: str, candidate: str, *, as_json: bool, **arguments: Any) -> None:
    """Compare CANDIDATE with BASELINE, from the stored data of both.

    Both are ids of runs on the server, or both are files with the JSON export of a run, which need no server. Exits
    with 0 if it passes, 1 if it regressed, 2 if they cannot be compared, 3 if nothing of CANDIDATE was judged or, with
    --fail-on-inconclusive, if it is inconclusive.
    """
    files = [Path(each) for each in (baseline, candidate)]
    are_files = [each.is_file() for each in files]
    if any(are_files) and not all(are_files):
        raise click.UsageError("both have to be files, or both ids of runs")
    try:
        document = _of_files(files, arguments) if all(are_files) else _of_server(baseline, candidate, arguments)
    except ValueError as error:
        raise BadGateInput(one_line(str(error))) from error
    if as_json:
        print_json(document)
    else:
        print_verdict(document)
    if not document["passed"]:
        context.exit(exit_code_of(document["verdict"]))


@runs.command()
@click.argument("run")
@server_option
def pin(*, run: str, server: str) -> None:
    """Pin RUN, so that it does not expire."""
    with open_server(server, None) as client:
        client.post(f"/api/v1/runs/{path_segment(run)}/pin", {})
    click.echo(f"the run {one_line(run)} is pinned and does not expire")


@runs.command()
@click.argument("run")
@server_option
def unpin(*, run: str, server: str) -> None:
    """Unpin RUN, so that it expires."""
    with open_server(server, None) as client:
        client.delete(f"/api/v1/runs/{path_segment(run)}/pin")
    click.echo(f"the run {one_line(run)} is unpinned and expires")


def _of_files(files: list[Path], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    from collector.gating.gate import Policy, judge
    from collector.gating.results import read_results

    before, after = (read_results(each) for each in files)
    policy = Policy(
        options=engine_options(arguments),
        fail_on_inconclusive=arguments["fail_on_inconclusive"],
        fail_on_removed_evaluator=not arguments["allow_removed_evaluators"],
    )
    return judge(before, after, str(files[0]), policy).document


def _of_server(baseline: str, candidate: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    body = {"baselineRunId": baseline, **server_options(arguments)}
    with exiting_as_gate(), open_server(arguments["server"], None) as client:
        return decide_on_server(client, candidate, body)
