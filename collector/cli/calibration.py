"""`tracejury calibration`: how far the judges of a rule can be trusted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click
import yaml
from msgspec import to_builtins

from collector.api.responses.annotating import (
    CalibrationDocument,
    JudgeCalibration,
    JudgeTrialDocument,
    LabelledExamples,
    MeasuredDocument,
)
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.lookups import rule_named, rule_path
from collector.cli.options import one_source, read_yaml, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.cli.text import measure_text
from collector.escaping import one_line


@click.command()
@click.argument("rule")
@click.option("--project", metavar="NAME", help="Project of the rule, if several rules have that name.")
@click.option("--name", metavar="NAME", help="Question that the votes answer. [default: verdict]")
@click.option("--source", type=click.Choice(["people", "user", "application"]), help="Source of the reference votes.")
@click.option("--days", type=click.IntRange(1, 3_650), help="Only results of the last N days.")
@click.option(
    "--with",
    "other",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=("Call the judge of this rule file on targets with votes, and compare. This costs judge calls."),
)
@click.option(
    "--labels", type=click.IntRange(2, 100), help="Number of labels for `--with` and `--examples`. [default: 20]"
)
@click.option(
    "--examples", is_flag=True, help="Print labelled examples for the prompt of an `llm_judge` as YAML instead."
)
@click.option("--json", "as_json", is_flag=True, help="Everything, with the disagreements, as JSON.")
@source_options
def calibration(*, rule: str, as_json: bool, examples: bool, other: Path | None, **parameters: Any) -> None:
    """Compare the judges of a rule (name or id) with votes."""
    server, data, project, labels = (parameters.pop(name) for name in ("server", "data", "project", "labels"))
    one_source(server, data)
    opened = open_source if other is None else open_server  # only a server calls judges
    with opened(server, data) as client:
        place = rule_path(rule_named(client, rule, project))
        if other is not None or examples:
            parameters = {name: parameters[name] for name in ("name", "source") if parameters[name] is not None}
            parameters |= {} if labels is None else {"labels": labels}
            _better(client, place, other, parameters, as_json=as_json)
            return
        document = client.get(f"{place}/calibration", **parameters)
    if as_json:
        print_json(document)
        return
    judges = parse_response(CalibrationDocument, document).judges
    if not judges:
        click.echo("this rule has no results yet that passed or failed")
    for each in judges:
        _print(each)


def _better(
    client: ServerClient, place: str, other: Path | None, parameters: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print the trial of another version of the judge, or labelled examples for its prompt."""
    if other is None:
        document = client.get(f"{place}/labelled-examples", **parameters)
        if as_json:
            print_json(document)
            return
        examples = to_builtins(parse_response(LabelledExamples, document).examples)
        click.echo(yaml.safe_dump({"examples": examples}, sort_keys=False, allow_unicode=True), nl=False)
        return
    rule = read_yaml(other)
    if not isinstance(rule, dict):
        raise click.ClickException(f"{one_line(str(other))}: a rule is a YAML mapping, one `key: value` a line")
    document = client.post(f"{place}/judge-trial?{urlencode(parameters)}", rule)
    if as_json:
        print_json(document)
        return
    trial = parse_response(JudgeTrialDocument, document)
    for name, version in (("active", trial.current), ("this one", trial.candidate)):
        if version is not None:
            cost = "" if version.cost_usd_each is None else f", ${version.cost_usd_each:.5f} each"
            click.echo(f"{name:<12} agrees {_share(version.agreement)}, kappa {measure_text(version.kappa)}{cost}")
    click.echo(trial.in_words)
    if trial.held_out:
        click.echo(f"{trial.held_out} labels are held out: they are examples in a prompt.")
    for problem in trial.problems:
        click.echo(f"no verdict: {one_line(problem)}")


def _print(judge: JudgeCalibration) -> None:
    lines = {
        f"judge {judge.fingerprint[:12]}": f"{judge.judged:,} results, {judge.labelled:,} with labels",
        "its pass rate": _share(judge.raw),
        "corrected": _share(judge.corrected),
        "sensitivity": _share(judge.sensitivity),
        "specificity": _share(judge.specificity),
        "kappa": measure_text(judge.kappa),
        "alpha among people": measure_text(judge.alpha_of_people),
    }
    for name, text in lines.items():
        click.echo(f"{name:<20} {text}")
    click.echo(judge.in_words)
    if judge.more_labels is not None and judge.more_labels.count is not None:
        click.echo(f"{judge.more_labels.count:,} labels more would halve the corrected interval.")


def _share(measure: MeasuredDocument) -> str:
    if measure.value is None or measure.low is None or measure.high is None:
        return "not known"
    return f"{measure.value:.1%} ({100 * measure.low:.1f} to {100 * measure.high:.1f})"
