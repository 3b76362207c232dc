"""`tracejury rules`: what rules would do."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from collector.cli.options import one_source, read_view, source_options
from collector.cli.render import print_json
from collector.cli.source import Parameters, Source, open_source
from collector.cli.text import one_line, some_lines
from collector.cli.views import TableView

if TYPE_CHECKING:
    from evaluators.evaluator import Need
    from rules.rule import Rule

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_S = 3_660 * 86_400


class _Duration(click.ParamType[float]):
    """A length of time such as 30m, 24h or 7d, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's
        """The seconds."""
        match = re.fullmatch(r"([0-9]{1,9})([smhd])", str(value))
        seconds = int(match[1]) * _UNITS_S[match[2]] if match else 0
        if not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is not a length of time such as 90s, 30m, 24h or 7d", param, ctx)
        return float(seconds)


@click.group()
def rules() -> None:
    """Choose what is judged as it arrives."""


@rules.command("test")
@click.argument("file", metavar="RULE.yaml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--last", type=_Duration(), default="24h", show_default=True, help="Look at what started since then.")
@click.option("--trace", metavar="ID", help="Say of this trace and each of its spans what becomes of it, and why.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@source_options
def try_out(
    *, file: Path, last: float, trace: str | None, as_json: bool, server: str | None, data: Path | None
) -> None:
    """Show what a rule would match of what is stored, and what that would cost; nothing is judged."""
    from collector.cli.trial_document import trial_document
    from collector.cli.trial_text import print_explained, print_trial
    from collector.evaluation.rule_trial import explain_trace, try_rule

    one_source(server, data)
    rule, judge = _load(file)
    with open_source(server, data) as source:

        def ask(select: str, parameters: Parameters) -> Sequence[Sequence[object]]:
            return _rows(source, select, parameters)

        if trace is not None:
            explained = explain_trace(rule, trace.strip().lower(), ask)
            if explained is None:
                raise click.ClickException(f"no trace {one_line(trace)} here; `tracejury traces list` shows the newest")
            print_json(explained) if as_json else print_explained(explained)
            return
        trial = try_rule(rule, judge, last, ask)
    print_json(trial_document(trial)) if as_json else print_trial(trial)


def _load(file: Path) -> "tuple[Rule, Need]":
    """The rule in a file, and whether its evaluator asks a judge.

    Raises:
        click.ClickException: it holds none; each problem is a line with the file, its line and its key.
    """
    from collector.evaluation.rule_check import check_evaluator
    from rules.errors import BadRule
    from rules.rule_text import parse_rule

    try:
        parsed = parse_rule(file.read_text(encoding="utf-8"))
        return parsed.rule, check_evaluator(parsed)
    except OSError as error:
        raise click.ClickException(f"{one_line(str(file))} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{one_line(str(file))} is not UTF-8: {error.reason}") from error
    except BadRule as error:
        told = "\n".join(
            f"{file}:{each.line}: {each.key}{': ' if each.key else ''}{each.message}" for each in error.problems
        )
        raise click.ClickException(some_lines(told)) from error


def _rows(source: Source, select: str, parameters: Parameters) -> Sequence[Sequence[object]]:
    return read_view(TableView, source.sql(select, parameters)).rows
