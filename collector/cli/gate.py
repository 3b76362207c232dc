"""`tracejury gate` and `tracejury gate-report`: compare a run with a baseline, from files alone."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from collector.cli.deciding import allow_removed_option, engine_options, with_deciding_options
from collector.cli.verdict_text import print_verdict
from collector.escaping import one_line
from tracejury.file_ending import files_ending

BAD_INPUT: Final = 2
NO_BASELINE: Final = 4
UPDATE_VARIABLE: Final = "TRACEJURY_UPDATE_BASELINE"
MAX_VERDICTS: Final = 200
MAX_SUMMARY_BYTES: Final = 1 << 20

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_OPTIONS: Final = (
    click.option("--baseline", type=_FILE, help="The baseline file. [default: baselines/EXPERIMENT.json]"),
    click.option("--against", type=_FILE, help="Compare with these results instead, including cost and latency."),
    click.option(
        "--verdict-dir", type=_FOLDER, default=Path("gate"), show_default=True, help="Directory for the verdict."
    ),
    click.option("--update-baseline", is_flag=True, help=f"Accept the results; so does {UPDATE_VARIABLE}=true."),
    click.option("--pairing", type=click.Choice(["auto", "positional", "dataset_item_id"]), default="auto"),
    click.option(
        "--epsilon", type=float, default=0.001, show_default=True, help="Smaller differences count as rounding."
    ),
    click.option("--seed", type=int, default=42, show_default=True, help="Seed of the random draws."),
    click.option("--require-baseline", is_flag=True, help="Without a baseline in CI, exit with 4."),
    click.option("--no-bootstrap", is_flag=True, help="The first local run writes the baseline and fails."),
    click.option("--fail-on-inconclusive", is_flag=True, help="Exit with 3 if the result is inconclusive."),
    click.option("--no-fail-on-regression", is_flag=True, help="Record a regression and exit with 0."),
    click.option("--fail-on-removed-items", is_flag=True, help="Missing items fail the gate, not only warn."),
    allow_removed_option,
    click.option("--junit", type=_FILE, help="Also write JUnit XML to this file."),
)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return with_deciding_options(command)


class BadGateInput(click.ClickException):
    """The runs cannot be compared."""

    exit_code = BAD_INPUT


@contextmanager
def exiting_as_gate() -> Iterator[None]:
    """Turn an error of the server, or its absence, into exit code `BAD_INPUT`: 1 would mean a regression."""
    try:
        yield
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise BadGateInput(error.message) from error


@click.command()
@click.argument("results", type=_FILE, metavar="RESULTS.json")
@_with_options
@click.pass_context
def gate(context: click.Context, /, results: Path, **arguments: Any) -> None:
    """Compare the results of a run with the baseline in a file, without a server.

    Exits with 0 if it passes, 1 if it regressed, 2 if it cannot be compared, 3 if nothing was judged or, with
    --fail-on-inconclusive, if it is inconclusive, 4 if CI has no baseline and --require-baseline is set.
    """
    from collector.gating.gate import decide
    from collector.gating.results import BadResultsFile, read_results
    from collector.gating.summary import junit

    try:
        candidate = read_results(results, arguments["pairing"])
        stem = _file_name(candidate.experiment)
        baseline = arguments["baseline"] or Path("baselines") / f"{stem}.json"
        decision = decide(candidate, baseline, _policy(arguments), _provenance())
    except (BadResultsFile, ValueError) as error:
        raise BadGateInput(one_line(str(error))) from error
    document = {**decision.document, "baseline": str(baseline)}
    stem = _file_name(baseline.stem)
    _kept(arguments["verdict_dir"] / f"{stem}.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    if arguments["junit"] is not None:
        _kept(arguments["junit"], junit(document))
    print_verdict(document)
    if document["status"] == "FAIL" and decision.can_be_accepted and arguments["against"] is None:
        click.echo(f"To accept it: {UPDATE_VARIABLE}=true tracejury gate {results} --baseline {baseline}")
    context.exit(decision.exit_code)


@click.command("gate-report")
@click.option(
    "--verdict-dir", type=_FOLDER, default=Path("gate"), show_default=True, help="Directory with the verdicts."
)
@click.option("--markdown", type=_FILE, help="Also write Markdown to this file.")
@click.option(
    "--comment", type=click.Choice(["github", "gitlab"]), help="Create or update one comment on the pull request."
)
def gate_report(*, verdict_dir: Path, markdown: Path | None, comment: str | None) -> None:
    """Report the verdicts of gates as Markdown, in the job summary, and as one comment on the pull request.

    A refused comment, as for forks, is reported and does not fail: the gate's own exit code is the verdict.
    """
    from collector.gating.comments import PLACES, NoComment, put_comment
    from collector.gating.summary import markdown as markdown_of
    from collector.settings_loading import environment_variable

    text = markdown_of(_verdicts(verdict_dir))
    click.echo(text, nl=False)
    if markdown is not None:
        _kept(markdown, text)
    summary = environment_variable("GITHUB_STEP_SUMMARY")
    if summary and len(text.encode()) < MAX_SUMMARY_BYTES:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    if comment is not None:
        try:
            click.echo(f"comment {put_comment(PLACES[comment](environment_variable), text)}", err=True)
        except NoComment as error:
            click.echo(f"warning: no comment: {one_line(str(error))}", err=True)


def _policy(arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - imported inside
    from collector.gating.gate import Policy
    from collector.settings_loading import environment_variable
    from rules.statistics.formulas.resampling import Draws

    on = {"1", "true", "yes"}
    options = engine_options(arguments, epsilon=arguments["epsilon"], draws=Draws(seed=arguments["seed"]))
    return Policy(
        against=arguments["against"],
        update=arguments["update_baseline"] or (environment_variable(UPDATE_VARIABLE) or "").lower() in on,
        in_ci=(environment_variable("CI") or "").lower() in on,
        bootstrap_passes=not arguments["no_bootstrap"],
        require_baseline=arguments["require_baseline"],
        fail_on_regression=not arguments["no_fail_on_regression"],
        fail_on_inconclusive=arguments["fail_on_inconclusive"],
        fail_on_removed_items=arguments["fail_on_removed_items"],
        fail_on_removed_evaluator=not arguments["allow_removed_evaluators"],
        options=options,
    )


def _provenance() -> dict[str, str]:
    from importlib.metadata import version

    return {"tracejury": version("tracejury")}


def _verdicts(directory: Path) -> list[dict[str, Any]]:
    from evaluators.wire import parse_json

    verdicts = []
    for path in files_ending(directory, "json")[:MAX_VERDICTS]:
        try:
            document = parse_json(path.read_text(encoding="utf-8"))
            verdicts.append({key: document[key] for key in document})
        except (OSError, ValueError, TypeError) as error:
            raise BadGateInput(f"{path}: {one_line(str(error))}") from error
        if not isinstance(document, dict) or "comparedPass" not in document:
            raise BadGateInput(f"{path}: no verdict of a gate")
    return verdicts


def _kept(path: Path, text: str) -> None:
    """Write a file. A failure is only a warning, so that the verdict is still reported."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        click.echo(f"warning: {path} was not written: {one_line(str(error))}", err=True)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100] or "gate"
