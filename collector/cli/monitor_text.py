"""Monitors as printed text."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from collector.api.base.times import instant_ns
from collector.api.responses.alerting import RateDocument, StreamDocument
from collector.cli.render import output_console
from collector.cli.text import cell
from collector.escaping import one_line
from collector.units import count_text, instant_text

_NAME_CELLS = 30
_FINGERPRINT_DIGITS = 12
_SCORES = "scores:"
_KIND_CELLS = 17
_BEGAN = {
    "evaluator": "another evaluator or threshold, or other captured content",
    "settings": "other settings of the monitors",
}


def print_monitors(monitors: Sequence[StreamDocument]) -> None:
    """Print a paragraph for each stream of results, with a line for each of its monitors."""
    console = output_console()
    if not monitors:
        console.print("no results are watched here yet")
    for each in monitors:
        project = cell(each.project_name or "-", _NAME_CELLS)
        if each.service_name not in {None, each.project_name}:
            project += f" ({cell(each.service_name or '', _NAME_CELLS)})"
        title = f"{project}, {cell(each.rule_name, _NAME_CELLS)}, {_print(each.fingerprint)}"
        console.print(Text(title, style="bold").append(f": {_history(each)}", style="not bold"), soft_wrap=True)
        for line in _lines(each):
            console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
        if each.open_alert_id is not None:
            console.print(Text(f"  alert {one_line(each.open_alert_id)}", style="bold red"), soft_wrap=True)


def _history(view: StreamDocument) -> str:
    if not view.results:  # of the stream of an evaluator that was replaced
        latest = instant_text(instant_ns(view.updated_at))
        return f"compares with nothing any more: another evaluator took its place; latest result {latest}"
    since = f"{count_text(view.results, 'result')} since {instant_text(instant_ns(view.since))}"
    if view.began not in _BEGAN:
        return since
    before = f", {_print(view.replaced_fingerprint)} before" if view.replaced_fingerprint else ""
    return f"{since}, begun anew with {_BEGAN[view.began]}{before}"


def _lines(view: StreamDocument) -> Iterator[str]:
    if not view.monitors:
        yield "off"
    for each in view.monitors:
        evidence = "not yet" if each.evidence is None else f"{each.evidence:.3g}"
        before, now = _side(view, each.baseline, ", ".join(each.against)), _side(view, each.candidate, each.release)
        kind = f"{each.kind}{'' if each.waits_for == 'alarm' else ', recovery'}"
        yield f"{kind:<{_KIND_CELLS}}  {before}  ->  {now}  evidence {evidence} of {each.evidence_threshold:.3g}"


def _print(fingerprint: str) -> str:
    if fingerprint.startswith(_SCORES):
        return cell(fingerprint, _NAME_CELLS)
    return one_line(fingerprint[:_FINGERPRINT_DIGITS])


def _side(view: StreamDocument, rate: RateDocument | None, release: str | None) -> str:
    named = f"{cell(release, _NAME_CELLS)}: " if release else ""
    if rate is None:
        return f"{named}-"
    if view.measure == "passed":
        low, high = 100 * rate.low, 100 * rate.high
        return f"{named}{100 * rate.rate:.1f} % of {rate.count} ({low:.1f} to {high:.1f})"
    return f"{named}{rate.rate:.3f} of {rate.count} ({rate.low:.3f} to {rate.high:.3f})"
