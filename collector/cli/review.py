"""`tracejury review`: queues of what people are to judge, what is in them, and how far they are."""

from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from collector.cli.asking import ServerClient, open_server
from collector.cli.options import one_source, read_view, source_options
from collector.cli.render import output_console, print_json
from collector.visible import one_line

_PATH = "/api/v1/review-queues"


class _Read(BaseModel):
    """A part of the answer, of which more may be added."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class _Queue(_Read):
    """A queue as it is printed."""

    id: str
    name: str
    question: str
    reviewers: int
    blind: bool
    entries: int
    done: int
    votes: int


class _Person(_Read):
    """What one person did."""

    author: str
    votes: int
    skipped: int
    leased: int


class _Progress(_Read):
    """How far a queue is."""

    entries: int
    done: int
    votes: int
    leased: int
    reviewers: list[_Person]


class _Added(_Read):
    """What came of adding."""

    added: int


@click.group()
def review() -> None:
    """Give people traces, spans and items of runs to judge, and see how far they are."""


@review.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_queues(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """All queues, and how far each is."""
    one_source(server, data)
    with open_server(server, data) as asking:
        found = asking.whole(_PATH)
    if as_json:
        print_json(found)
        return
    rows = [read_view(_Queue, each) for each in found]
    _table(
        ("QUEUE", "QUESTION", "DONE", "VOTES", "REVIEWERS", "BLIND"),
        [
            (
                each.name,
                each.question,
                f"{each.done} of {each.entries}",
                each.votes,
                each.reviewers,
                "yes" if each.blind else "no",
            )
            for each in rows
        ],
        "there are no review queues",
    )


@review.command()
@click.argument("name")
@click.option("--question", metavar="NAME", help="The name of the annotations that answer it; without it `verdict`.")
@click.option("--instructions", metavar="TEXT", help="What reviewers are asked, in words.")
@click.option("--label", "labels", metavar="TEXT", multiple=True, help="An answer; CORRECT, INCORRECT, UNSURE if none.")
@click.option("--reviewers", type=click.IntRange(1, 100), help="How many people look at each entry; 1 if not given.")
@click.option("--open", "is_open", is_flag=True, help="Tell reviewers what others said before they vote.")
@source_options
def create(
    *,
    name: str,
    labels: Sequence[str],
    is_open: bool,
    server: str | None,
    data: Path | None,
    **text: str | int | None,
) -> None:
    """Make a queue."""
    one_source(server, data)
    body: dict[str, object] = {key: value for key, value in text.items() if value is not None}
    body |= {"name": name, "blind": not is_open} | ({"labels": list(labels)} if labels else {})
    with open_server(server, data) as asking:
        made = read_view(_Queue, asking.post(_PATH, body))
    click.echo(f"{one_line(made.name)}: /review/{made.id}")


@review.command()
@click.argument("queue")
@click.option("--trace", "traces", metavar="ID", multiple=True, help="A trace, or a span as TRACE/SPAN.")
@click.option("--item", "items", metavar="ID", multiple=True, help="An item of a run.")
@click.option("--run", metavar="ID", help="All items of a run.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="A random share of the run's items.")
@source_options
def add(
    *,
    queue: str,
    traces: Sequence[str],
    items: Sequence[str],
    server: str | None,
    data: Path | None,
    **of_run: str | float | None,
) -> None:
    """Add to a queue, named or by its id, what people are to judge."""
    one_source(server, data)
    targets = [dict(zip(("traceId", "spanId"), each.split("/", 1), strict=False)) for each in traces]
    targets += [{"itemResultId": each} for each in items]
    body: dict[str, object] = {"targets": targets} if targets else {}
    named = {"runId": of_run["run"], "share": of_run["share"]}
    body |= {key: value for key, value in named.items() if value is not None}
    with open_server(server, data) as asking:
        added = read_view(_Added, asking.post(f"{_PATH}/{_find(asking, queue).id}/entries", body))
    click.echo(f"{added.added} added")


@review.command()
@click.argument("queue")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def progress(*, queue: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """How far a queue is, and what each person did."""
    one_source(server, data)
    with open_server(server, data) as asking:
        found = asking.get(f"{_PATH}/{_find(asking, queue).id}/progress")
    if as_json:
        print_json(found)
        return
    told = read_view(_Progress, found)
    click.echo(f"{told.done} of {told.entries} done, {told.votes} votes, {told.leased} looked at now")
    people = [(each.author, each.votes, each.skipped, each.leased) for each in told.reviewers]
    _table(("WHO", "VOTES", "LEFT OUT", "LOOKS AT NOW"), people, "nobody has reviewed anything yet")


@review.command()
@click.argument("queue")
@source_options
def delete(*, queue: str, server: str | None, data: Path | None) -> None:
    """Delete a queue; the votes stay."""
    one_source(server, data)
    with open_server(server, data) as asking:
        found = _find(asking, queue)
        asking.delete(f"{_PATH}/{found.id}")
    click.echo(f"{one_line(found.name)} is deleted")


def _find(asking: ServerClient, named: str) -> _Queue:
    views = [read_view(_Queue, each) for each in asking.whole(_PATH)]
    found = [each for each in views if named in {each.id, each.name}]
    if len(found) != 1:
        told = "is the name of several review queues: use the id" if found else "is no review queue"
        raise click.ClickException(f"{one_line(named)} {told}")
    return found[0]


def _table(titles: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    from rich.table import Table
    from rich.text import Text

    console = output_console()
    if not rows:
        console.print(nothing)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(str(cell))) for cell in row))
    console.print(table)
