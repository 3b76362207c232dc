"""`tracejury rules`: list rules, try them out, and run them on stored traces."""

import datetime as dt
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from collector.api.responses.judging import BackfillDocument, BaselineEstimateDocument, ConnectionDocument, RuleList
from collector.api.responses.server import StatusDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.connecting import Parameters
from collector.cli.lookups import rule_named, rule_path
from collector.cli.options import one_source, server_option, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.cli.times import PAST, Duration
from collector.cli.views import TableView
from collector.escaping import one_line, some_lines
from collector.path_names import path_segment

if TYPE_CHECKING:
    from evaluators.evaluator import Need
    from rules.rule import Rule
    from rules.settling import Settling

_FOLLOW_S = 0.5
_PATH = "/api/v1/trace-eval-rules"


@click.group()
def rules() -> None:
    """List and test rules, which select what is judged, and run them on stored traces."""


@rules.command("test")
@click.argument("file", metavar="RULE.yaml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--last", type=Duration(), default="24h", show_default=True, help="Only data that started since then.")
@click.option("--trace", metavar="ID", help="Show the decision on this trace and each of its spans, with the reason.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def try_out(
    *, file: Path, last: float, trace: str | None, as_json: bool, server: str | None, data: Path | None
) -> None:
    """Show the matches of a rule in stored data and their estimated cost, without evaluating."""
    from collector.api.documents.rule_documents import trial_document
    from collector.cli.trial_text import print_explained, print_trial
    from collector.evaluation.rule_trial import explain_trace, try_rule

    one_source(server, data)
    rule, judge = _load(file)
    with open_source(server, data) as source:

        def ask(select: str, parameters: Parameters) -> Sequence[Sequence[object]]:
            return _rows(source, select, parameters)

        _refuse_unknown_connections(file, rule, source)
        if trace is not None:
            explained = explain_trace(rule, trace.strip().lower(), ask)
            if explained is None:
                raise click.ClickException(f"no trace {one_line(trace)} here; `tracejury traces list` shows the newest")
            print_json(explained) if as_json else print_explained(explained)
            return
        trial = try_rule(rule, judge, last, ask, settling=_settling(source))
    print_json(to_builtins(trial_document(trial))) if as_json else print_trial(trial)


@rules.command("list")
@click.option("--project", metavar="NAME", help="Only rules about this project, or about all.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def list_rules(*, project: str | None, as_json: bool, server: str | None, data: Path | None) -> None:
    """List rules with their results of the last 24 hours (all revisions together), and problems of rule files."""
    from collector.cli.rule_text import print_rules

    one_source(server, data)
    with open_source(server, data) as source:
        document = source.document("GET", _PATH)
    shown = parse_response(RuleList, document)
    if project is None:
        print_json(document) if as_json else print_rules(shown)
        return
    shown.content = [rule for rule in shown.content if rule.project in {project, None}]
    print_json(to_builtins(shown)) if as_json else print_rules(shown)


@rules.command("backfill")
@click.argument("name")
@click.option("--from", "from_time", type=PAST, required=True, help="Only spans that started since then.")
@click.option("--to", "to_time", type=PAST, help="Only spans that started before then. [default: now]")
@click.option("--project", metavar="NAME", help="Project of the rule, if several rules have that name.")
@click.option("--follow", is_flag=True, help="Wait for the end, and show the progress.")
@server_option
def backfill(
    *, name: str, from_time: dt.datetime, to_time: dt.datetime | None, project: str | None, follow: bool, server: str
) -> None:
    """Backfill a rule (name or id) over stored data."""
    with open_server(server, None) as source:
        place = f"{rule_path(rule_named(source, name, project))}/backfills"
        bounds = {"from": from_time.isoformat()} | ({} if to_time is None else {"to": to_time.isoformat()})
        _follow(source, place, source.post(place, bounds), follow=follow)


@rules.command("baseline")
@click.argument("name")
@click.option("--project", metavar="NAME", help="Project of the rule, if several rules have that name.")
@click.option("--follow", is_flag=True, help="Wait for the end, and show the progress.")
@click.option("--dry-run", is_flag=True, help="Only estimate evaluations and cost.")
@server_option
def baseline(*, name: str, project: str | None, follow: bool, dry_run: bool, server: str) -> None:
    """Build a new baseline for the monitors of a rule (name or id) after an edit.

    Evaluates again the latest results of the current release and of its baseline in each service. These are 200 of
    each, or minResults if that is more, and at most 1,000 in total. Results of the edited rule count and are not
    repeated. The cost of the judge is estimated first.
    """
    from collector.cli.rule_text import baseline_text

    with open_server(server, None) as source:
        place = rule_path(rule_named(source, name, project))
        click.echo(baseline_text(parse_response(BaselineEstimateDocument, source.get(f"{place}/baseline"))))
        if not dry_run:
            _follow(source, f"{place}/backfills", source.post(f"{place}/baseline"), follow=follow)


def _follow(source: ServerClient, backfills: str, document: object, *, follow: bool) -> None:
    """Print the progress of a backfill, once or until it ends."""
    from collector.cli.rule_text import backfill_text

    started = parse_response(BackfillDocument, document)
    click.echo(backfill_text(started))
    while follow and started.state == "running":
        time.sleep(_FOLLOW_S)
        now = parse_response(BackfillDocument, source.get(f"{backfills}/{path_segment(started.id)}"))
        if now != started:
            click.echo(backfill_text(now))
        started = now
    if started.state == "failed":
        raise click.exceptions.Exit(1)


def _refuse_unknown_connections(file: Path, rule: "Rule", source: ServerClient) -> None:
    """Refuse a rule that names an unknown connection: it would match, and judge nothing."""
    named = [("connectionId", rule.connection), *(("jury", each) for each in rule.jury)]
    used = [(key, name) for key, name in named if name is not None]
    if not used:
        return
    known = parse_response(list[ConnectionDocument], source.whole("/api/v1/llm-connections"))
    names = {text for each in known for text in (each.id, each.name)}
    if unknown := [f"{file}: {key}: there is no connection {name!r}" for key, name in used if name not in names]:
        existing = ", ".join(sorted(each.name for each in known)) or "none"
        raise click.ClickException(some_lines("\n".join(unknown) + f"\n`tracejury connections list` has: {existing}"))


def _load(file: Path) -> "tuple[Rule, Need]":
    """Read the rule in a file, and whether its evaluator calls a judge."""
    from collector.evaluation.rule_check import read_rule
    from rules.errors import BadRule
    from rules.rule_text import parse_rule

    try:
        text = file.read_text(encoding="utf-8")
        parsed, need = read_rule(lambda: parse_rule(text), file.parent)
        return parsed.rule, need
    except OSError as error:
        raise click.ClickException(f"{one_line(str(file))} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{one_line(str(file))} is not UTF-8: {error.reason}") from error
    except BadRule as error:
        message = "\n".join(
            f"{file}:{each.line}: {each.key}{': ' if each.key else ''}{each.message}" for each in error.problems
        )
        raise click.ClickException(some_lines(message)) from error


def _settling(source: ServerClient) -> "Settling":
    from rules.settling import Settling

    status = parse_response(StatusDocument, source.document("GET", "/api/v1/status"))
    if status.settling is None:  # an older server
        return Settling()
    return Settling(
        after_root_s=status.settling.after_root_seconds,
        quiet_s=status.settling.quiet_seconds,
        longest_s=status.settling.longest_seconds,
        session_s=status.settling.session_seconds,
    )


def _rows(source: ServerClient, select: str, parameters: Parameters) -> Sequence[Sequence[object]]:
    return parse_response(TableView, source.post("/api/v1/sql", {"sql": select, "parameters": dict(parameters)})).rows
