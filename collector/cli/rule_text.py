"""Rules and the status of the server as text."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from collector.api.responses.judging import (
    ActiveRuleDocument,
    BackfillDocument,
    BaselineEstimateDocument,
    FileProblemDocument,
    RuleList,
    SpendingDocument,
)
from collector.api.responses.server import LagDocument, RunningServer, StatusDocument
from collector.cli.render import output_console
from collector.cli.text import cell, spending_text
from collector.escaping import one_line
from collector.result_labels import NO_VERDICT, PASSED, SKIPPED
from collector.units import count_text, duration_text, estimate_text

_NAME_CELLS: Final = 40
_MOST_NAMES: Final = 5  # of rules that are named with a reason they share
_ID: Final = "REVISION"
_OF_RULES: Final = "judge_unable"
"""The condition that `print_status` leaves out, because the lines about rules say the same."""


def print_rules(rules: RuleList) -> None:
    """Print rules with their latest results, and the problems of files."""
    console = output_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, overflow="fold", no_wrap=title == _ID, justify="right" if title in _NUMBERS else "left")
    for rule in rules.content:
        table.add_row(*_cells(rule))
    if rules.content:
        console.print(table)
        console.print(Text("counts: last 24 hours; spent: today (UTC)", style="dim"))
    else:
        console.print("no rules here")
    in_force = [rule for rule in rules.content if rule.enabled]
    _print_unable([(rule.name, rule.problem) for rule in in_force if rule.problem is not None])
    _print_comparisons([(rule.name, rule.comparison) for rule in in_force if rule.comparison is not None])
    _print_problems(rules.problems)


_NUMBERS: Final = ("MATCHED", *(each.upper() for each in (PASSED, NO_VERDICT, SKIPPED)), "SPENT")
_TITLES: Final = ("RULE", "PROJECT", "TARGET", "EVALUATOR", _ID, "FROM", *_NUMBERS)


def _cells(rule: ActiveRuleDocument) -> list[Text | str]:
    decisions, evaluations = rule.activity.decisions, rule.activity.evaluations
    looked_at = decisions.matched + decisions.filtered + decisions.sampled_out
    scored = evaluations.passed + evaluations.not_passed
    return [
        Text(cell(rule.name, _NAME_CELLS), style="bold red" if rule.problem else "" if rule.enabled else "dim"),
        Text(cell(rule.project or "all", _NAME_CELLS)),
        one_line(rule.target),
        Text(one_line(rule.evaluator)),
        one_line(rule.digest),
        Text(cell(rule.file or "API", _NAME_CELLS) + ("" if rule.enabled else ", disabled")),
        f"{decisions.matched:,} of {looked_at:,}",
        f"{evaluations.passed:,} of {scored:,}",
        Text(f"{evaluations.failed:,}", style="bold red" if evaluations.failed else ""),
        f"{evaluations.skipped:,}",
        _spent_text(rule.activity.spent_today),
    ]


def _spent_text(spent: SpendingDocument) -> str:
    parts = [spending_text(spent)] if spent.calls else []
    if spent.failed_calls:
        parts.append(count_text(spent.failed_calls, "failed call"))
    return ", ".join(parts) or "-"


def print_status(status: StatusDocument) -> None:
    """Print the status of a server."""
    console = output_console()
    for name, text, alarming in _lines(status):
        line = Text(f"{name:<10}  ", style="dim")
        line.append(text, style="bold red" if alarming else "")
        console.print(line, soft_wrap=True)
    _print_unable([(rule.name, rule.message) for rule in status.rules.unable])
    _print_comparisons([(rule.name, rule.message) for rule in status.rules.comparing_anew])
    conditions = status.server.conditions if status.server else ()
    for each in [each for each in conditions if each.name != _OF_RULES]:
        text = f"{each.name} since {each.since}: {each.message}"
        console.print(Text(one_line(text), style="red"), soft_wrap=True)
    _print_problems(status.rules.problems)


def _lines(status: StatusDocument) -> list[tuple[str, str, bool]]:
    """Return the lines of a status: name, text, and whether it is a problem."""
    server, jobs, spent = status.server, status.jobs, status.spent_today
    waiting = jobs.ready + jobs.waiting
    oldest = "" if jobs.oldest_seconds is None else f", the oldest for {duration_text(jobs.oldest_seconds * 1e3)}"
    running = "not running" if server is None else f"{server.state}, {server.backlog_bytes >> 10:,} KiB to commit"
    text = f"{count_text(status.rules.in_force, 'active rule')}, {status.rules.disabled:,} disabled"
    if status.rules.unable:
        text += f", {len(status.rules.unable):,} judge{'s' if len(status.rules.unable) == 1 else ''} nothing"
    retried = f" ({jobs.tried:,} to be tried again)" if jobs.tried else ""
    held = f", {jobs.held:,} held" if jobs.held else ""
    calls = count_text(spent.calls, "judge call")
    if spent.failed_calls:
        calls += f" and {spent.failed_calls:,} failed"
    cost = spending_text(spent)
    older = f"; {count_text(status.older_spans, 'span')} of an older reading" if status.older_spans else ""
    return [
        (
            "server",
            one_line(running) + (", overloaded" if server and server.overloaded else ""),
            bool(server and server.overloaded),
        ),
        ("spans", f"{status.spans.stored:,} stored, {status.spans.set_aside:,} set aside", status.spans.set_aside > 0),
        *_dropped(server),
        ("traces", f"{_behind(status.traces)}{older}", False),
        ("rules", text, bool(status.rules.problems or status.rules.unable)),
        ("matching", f"{_behind(status.matching)}; {count_text(status.open_traces, 'trace')} not settled", False),
        ("jobs", f"{waiting:,} waiting{retried}{held}, {jobs.claimed:,} under way{oldest}", False),
        ("deletions", _deletions(status), False),
        *_lake(server),
        ("last 24 h", f"{status.last24h.scored:,} scored, {status.last24h.skipped:,} skipped", False),
        ("", f"{status.last24h.failed:,} with {NO_VERDICT}", status.last24h.failed > 0),
        ("today", f"{calls}, {spent.tokens:,} tokens, {cost}", False),
    ]


def _dropped(server: RunningServer | None) -> list[tuple[str, str, bool]]:
    entries = server.dropped if server else ()
    scopes = (f"{each.spans:,} of {each.scope}{_in_project(each.project)}" for each in entries)
    return [("dropped", one_line(", ".join(scopes)), False)] if entries else []


def _lake(server: RunningServer | None) -> list[tuple[str, str, bool]]:
    lake = server and server.lake
    if not lake:
        return []
    size = ""
    if lake.files is not None:
        maintained = one_line((lake.maintained_at or "")[:16].replace("T", " "))
        size = f"; {count_text(lake.files, 'file')}, {(lake.size_bytes or 0) >> 20:,} MiB at {maintained}"
    moved = "nothing moved" if lake.moved_before is None else f"moved before {lake.moved_before}"
    behind = f"{duration_text(lake.lag_seconds * 1e3)} behind, {moved}{size}"
    return [("lake", f"{behind}{one_line(f'; waits: {lake.waiting}') if lake.waiting else ''}", bool(lake.waiting))]


def _in_project(project: str) -> str:
    return "" if project == "*" else f" in {project}"


def _deletions(status: StatusDocument) -> str:
    deleting, erasing = status.deletions.deleting, status.deletions.erasing
    return f"{deleting:,} under way, {erasing:,} to be erased on the disk" if deleting or erasing else "none"


def _behind(lag: LagDocument) -> str:
    if not lag.spans_behind:
        return "up to date"
    return f"{count_text(lag.spans_behind, 'span')} and {duration_text(lag.seconds_behind * 1e3)} behind"


def _print_unable(rules: Sequence[tuple[str, str]]) -> None:
    console = output_console()
    names_by_problem: dict[str, list[str]] = {}
    for name, problem in rules:
        names_by_problem.setdefault(problem, []).append(cell(name, _NAME_CELLS))
    for problem, names in names_by_problem.items():
        more = f" and {count_text(len(names) - _MOST_NAMES, 'other')}" if len(names) > _MOST_NAMES else ""
        judge = "judges" if len(names) == 1 else "judge"
        text = f"{', '.join(names[:_MOST_NAMES])}{more} {judge} nothing: {problem}"
        console.print(Text(one_line(text), style="red"), soft_wrap=True)


def _print_comparisons(rules: Sequence[tuple[str, str]]) -> None:
    console = output_console()
    for name, message in rules:
        console.print(Text(one_line(f"{cell(name, _NAME_CELLS)}: {message}"), style="yellow"), soft_wrap=True)


def _print_problems(problems: Sequence[FileProblemDocument]) -> None:
    console = output_console()
    for problem in problems:
        place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        text = f"{place}: {problem.key}: {problem.message}" if problem.key else f"{place}: {problem.message}"
        console.print(Text(one_line(text), style="red"), soft_wrap=True)


def backfill_text(backfill: BackfillDocument) -> str:
    """Format the progress of a backfill."""
    error = f": {one_line(backfill.error)}" if backfill.error else ""
    return f"{backfill.id} {backfill.state}, {backfill.looked_at:,} looked at, {backfill.matched:,} matched{error}"


def baseline_text(estimate: BaselineEstimateDocument) -> str:
    """Format the number of evaluations of a baseline, and their cost."""
    count = estimate.evaluations_at_most
    if not estimate.asks_judge:
        return f"at most {count_text(count, 'evaluation')}, without a judge"
    return estimate_text(count, estimate.averaged_evaluations, estimate.tokens, estimate.usd)
