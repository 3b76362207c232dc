"""Trials of rules as text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from collector.cli.render import output_console
from collector.cli.text import cell, json_text
from collector.escaping import one_line
from collector.units import count_text, instant_text

if TYPE_CHECKING:
    from collector.evaluation.rule_trial import RuleTrial

_VALUE_CELLS: Final = 60
_UNITS_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_JUDGES: Final = {
    "never": "no judge is called",
    "optional": "each may ask the judge",
    "always": "each calls the judge once or more",
}


def print_trial(trial: "RuleTrial") -> None:
    """Print the targets per decision, the cost, and examples of what would be judged."""
    rule, console = trial.rule, output_console()
    noun = rule.target.lower()
    console.print(Text(one_line(f"{rule.name}, revision {rule.revision[:12]}: {noun}s judged by {rule.evaluator}")))
    if not rule.enabled:
        console.print("the rule is not enabled: it judges nothing")
    console.print(f"{count_text(trial.looked_at, noun)} started in the last {_window(trial.window_s)}\n")
    table = _table("DECISION", f"{noun.upper()}S", "WHY")
    table.columns[1].justify = "right"
    for count in trial.counts:
        table.add_row(count.decision.replace("_", " "), f"{count.count:,}", Text(one_line(count.why or "")))
    console.print(table)
    console.print(Text(f"\n{_cost(trial)}"), soft_wrap=True)
    if trial.examples:
        console.print()
        console.print(_examples(trial))


def print_explained(document: Mapping[str, Any]) -> None:
    """Print the decisions on a trace and its spans."""
    console = output_console()
    if "decision" in document:
        console.print(Text(f"trace {document['traceId']}: {_decided(document)}\n"), soft_wrap=True)
    table = _table("SPAN", "NAME", "DECISION")
    for span in document["spans"]:
        table.add_row(Text(one_line(span["spanId"])), Text(cell(span["name"], _VALUE_CELLS)), Text(_decided(span)))
    console.print(table)


def _window(seconds: float) -> str:
    whole = int(seconds)
    fitting = (f"{whole // size}{unit}" for unit, size in _UNITS_S.items() if whole % size == 0 and whole > size)
    return next(fitting, f"{whole}s")


def _decided(document: Mapping[str, Any]) -> str:
    decision = str(document["decision"]).replace("_", " ")
    if document["clause"] is None:
        return decision
    value = document.get("value")
    stored = "it is not there" if value is None else f"it is {cell(json_text(value, indent=None), _VALUE_CELLS)}"
    shown = f"; {stored}" if "value" in document else ""
    return f"{decision}: not {one_line(document['clause'])}{shown}"


def _cost(trial: "RuleTrial") -> str:
    a_day = trial.evaluations_per_day
    cost = f"would cost {count_text(trial.evaluations, 'evaluation')}, some {a_day:,.0f} a day; {_JUDGES[trial.judge]}"
    budget = trial.rule.budget
    if trial.judge == "never" or budget is None or budget.calls_per_day is None:
        return cost
    calls = budget.calls_per_day
    over = a_day - calls
    return f"{cost}\nthe budget of {count_text(calls, 'call')} a day " + (
        f"leaves out at least {over:,.0f} of them a day" if over > 0 else "has one for each of them"
    )


def _examples(trial: "RuleTrial") -> Table:
    target = trial.rule.target
    beside = () if target == "TRACE" else (target,)
    table = _table("TRACE", *beside, "STARTED (UTC)", "NAME", "SERVICE")
    if target != "SPAN":
        table.add_column("SETTLED")
    for example in trial.examples:
        settled = "yes" if example.settled else f"at {instant_text(example.settles_at_ns)}"
        table.add_row(
            Text(one_line(example.trace_id)),
            *(Text(one_line(each)) for each in (example.span_id, example.session_id) if each is not None),
            instant_text(example.start_ns),
            *(Text(cell(name, _VALUE_CELLS)) for name in (example.name, example.service)),
            *((settled,) if target != "SPAN" else ()),
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
