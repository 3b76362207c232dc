"""Shared parts of commands that compare two runs: thresholds, the decision, and exit codes."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from collector.api.responses.wire import WireDocument
from collector.cli.client import ServerClient
from collector.cli.responses import parse_response
from collector.path_names import path_segment

if TYPE_CHECKING:
    from rules.statistics.runs.options import Options

_OPTIONS: Final = (
    click.option("--evaluator", "evaluators", multiple=True, help="Only this evaluator; repeatable."),
    click.option(
        "--threshold",
        "thresholds",
        multiple=True,
        metavar="NAME=NUMBER",
        help="Threshold of this evaluator in both runs; repeatable.",
    ),
    click.option("--alpha", type=float, default=0.05, show_default=True, help="Chance of a false alarm."),
    click.option("--margin", type=float, default=0.05, show_default=True, help="Tolerated loss."),
    click.option("--severity-margin", type=float, help="Maximum loss of a single item by any evaluator."),
    click.option("--floor", type=int, help="Minimum number of passed trials per item."),
    click.option("--cost-margin", type=float, help="Tolerated relative increase of cost: 0.1 is 10 %."),
    click.option("--latency-margin", type=float, help="Tolerated relative increase of latency."),
    click.option("--slice", "slices", multiple=True, help="Metadata key to slice by; repeatable."),
    click.option(
        "--unscored",
        multiple=True,
        metavar="KIND=WHAT",
        help="Treatment of trials without a verdict (failed), skipped or missing.",
    ),
)

allow_removed_option: Final = click.option(
    "--allow-removed-evaluators",
    is_flag=True,
    help="Warn if an evaluator of the baseline is missing, instead of failing.",
)


def with_deciding_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a comparison to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def engine_options(arguments: Mapping[str, Any], **more: Any) -> "Options":
    """Return the options of the local comparison (`rules.statistics.runs`).

    Raises:
        ValueError: an option is out of range.
    """
    from rules.statistics.runs.options import Options

    return Options(
        alpha=arguments["alpha"],
        margin=arguments["margin"],
        severity=arguments["severity_margin"],
        floor=arguments["floor"],
        cost_margin=arguments["cost_margin"],
        latency_margin=arguments["latency_margin"],
        slices=arguments["slices"],
        evaluators=arguments["evaluators"] or None,
        thresholds=thresholds_of(arguments["thresholds"]),
        unscored=unscored_of(arguments["unscored"]),
        **more,
    )


def thresholds_of(entries: Sequence[str]) -> dict[str, float]:
    """Parse NAME=NUMBER to thresholds by evaluator.

    Raises:
        click.UsageError: an entry is not NAME=NUMBER.
    """
    pairs = [each.rpartition("=") for each in entries]
    try:
        thresholds = {name: float(number) for name, _, number in pairs}
    except ValueError:
        raise click.UsageError("--threshold takes NAME=NUMBER") from None
    if "" in thresholds:
        raise click.UsageError("--threshold takes NAME=NUMBER")
    return thresholds


def unscored_of(entries: Sequence[str]) -> dict[str, Any]:
    """Return the policy for each kind of trial without a score."""
    pairs = [each.partition("=") for each in entries]
    return {kind: policy for kind, _, policy in pairs}


def server_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the server's gate for these options.

    Raises:
        click.UsageError: an entry is not NAME=NUMBER.
    """
    return {
        "alpha": options["alpha"],
        "margin": options["margin"],
        "severityMargin": options["severity_margin"],
        "floor": options["floor"],
        "costMargin": options["cost_margin"],
        "latencyMargin": options["latency_margin"],
        "slices": list(options["slices"]),
        "evaluators": list(options["evaluators"]) or None,
        "thresholds": thresholds_of(options["thresholds"]),
        "unscored": unscored_of(options["unscored"]),
        "failOnInconclusive": options["fail_on_inconclusive"],
        "allowRemovedEvaluators": options["allow_removed_evaluators"],
    }


class _Candidate(WireDocument):
    id: str
    experiment_id: str


class _Verdict(WireDocument):
    passed: bool
    verdict: str | None


def decide_on_server(client: ServerClient, candidate: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have the server's gate compare a run with another one of its experiment."""
    run = parse_response(_Candidate, client.get(f"/api/v1/runs/{path_segment(candidate)}", size=1))
    place = f"/api/v1/experiments/{path_segment(run.experiment_id)}/gate"
    answer = client.post(place, {**body, "candidateRunId": run.id})
    parse_response(_Verdict, answer)
    return parse_response(dict[str, Any], answer)


def exit_code_of(verdict: str | None) -> int:
    """Return the exit code for a verdict that fails: 1 for a regression, else 3."""
    return 1 if verdict == "regressed" else 3
