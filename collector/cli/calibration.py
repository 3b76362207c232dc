"""`tracejury calibration`: how far the judges of a rule can be trusted."""

from pathlib import Path
from urllib.parse import quote

import click
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from collector.cli.asking import ServerClient, open_server
from collector.cli.options import one_source, read_view, source_options
from collector.cli.render import print_json
from collector.cli.views import RulesView
from collector.visible import one_line


class _Read(BaseModel):
    """A part of the answer, of which more may be added."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class _Measure(_Read):
    """A measure with its interval."""

    value: float | None
    low: float | None
    high: float | None

    def share(self) -> str:
        """As a share of a hundred."""
        if self.value is None or self.low is None or self.high is None:
            return "not known"
        return f"{self.value:.1%} ({100 * self.low:.1f} to {100 * self.high:.1f})"

    def number(self) -> str:
        """As a number."""
        if self.value is None or self.low is None or self.high is None:
            return "not defined"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


class _More(_Read):
    """How many labels more would halve the interval."""

    count: int | None


class _Judge(_Read):
    """One judge against people."""

    fingerprint: str
    judged: int
    labelled: int
    raw: _Measure
    corrected: _Measure
    sensitivity: _Measure
    specificity: _Measure
    kappa: _Measure
    alpha_of_people: _Measure
    in_words: str
    more_labels: _More | None


class _Calibration(_Read):
    """The judges of a rule, the latest first."""

    judges: list[_Judge]


@click.command()
@click.argument("rule")
@click.option("--project", metavar="NAME", help="Of several rules with that name, the one about this project.")
@click.option("--name", metavar="NAME", help="The question that the votes answer: `verdict`, unless you have others.")
@click.option("--source", type=click.Choice(["people", "user", "application"]), help="Whose votes are the truth.")
@click.option("--days", type=click.IntRange(1, 3_650), help="Only results of so many days.")
@click.option("--json", "as_json", is_flag=True, help="Everything, with the disagreements, as JSON.")
@source_options
def calibration(
    *, rule: str, as_json: bool, project: str | None, server: str | None, data: Path | None, **asked: str | int | None
) -> None:
    """Hold the judges of a rule, named or by its id, against people."""
    one_source(server, data)
    with open_server(server, data) as asking:
        found = asking.get(f"{_place(asking, rule, project)}/calibration", **asked)
    if as_json:
        print_json(found)
        return
    judges = read_view(_Calibration, found).judges
    if not judges:
        click.echo("nothing was judged yet that passes or fails")
    for each in judges:
        _print(each)


def _place(asking: ServerClient, name: str, project: str | None) -> str:
    """Where the only rule of that name or id is.

    Raises:
        click.ClickException: there is none, or more than one.
    """
    listed = read_view(RulesView, asking.get("/api/v1/trace-eval-rules", size=1_000)).content
    fitting = [each for each in listed if name in {each.id, each.name} and project in {None, each.project}]
    if len(fitting) != 1:
        told = "no rule is" if not fitting else f"{len(fitting)} rules are"
        raise click.ClickException(f"{told} called {one_line(name)}; `tracejury rules list` shows them")
    (found,) = fitting
    return f"/api/v1/projects/{quote(found.project or '*', safe='*')}/trace-eval-rules/{found.id}"


def _print(judge: _Judge) -> None:
    lines = {
        f"judge {judge.fingerprint[:12]}": f"{judge.judged:,} results, {judge.labelled:,} with labels",
        "its pass rate": judge.raw.share(),
        "corrected": judge.corrected.share(),
        "sensitivity": judge.sensitivity.share(),
        "specificity": judge.specificity.share(),
        "kappa": judge.kappa.number(),
        "alpha among people": judge.alpha_of_people.number(),
    }
    for name, text in lines.items():
        click.echo(f"{name:<20} {text}")
    click.echo(judge.in_words)
    if judge.more_labels is not None and judge.more_labels.count is not None:
        click.echo(f"{judge.more_labels.count:,} labels more would halve the corrected interval.")
