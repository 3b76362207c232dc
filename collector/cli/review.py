"""`tracejury review`: review queues, their entries and progress."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from collector.api.responses.annotating import AgreementDocument
from collector.api.responses.reviewing import AddedEntries, ReviewProgress, ReviewQueueDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.lookups import one_named, rule_named
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.cli.text import measure_text
from collector.escaping import one_line

_PATH = "/api/v1/review-queues"
_POLICIES = ("failing", "uncertainty", "disagreement", "random")
_POLICY_CHOICES = "one of " + ", ".join(_POLICIES)


@click.group()
def review() -> None:
    """Queue traces, spans and items of runs for review by people, and show their progress."""


@review.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_queues(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List queues with their progress."""
    one_source(server, data)
    with open_source(server, data) as client:
        documents = client.whole(_PATH)
    if as_json:
        print_json(documents)
        return
    rows = parse_response(list[ReviewQueueDocument], documents)
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
@click.option("--question", metavar="NAME", help="Name under which votes are stored. [default: verdict]")
@click.option("--instructions", metavar="TEXT", help="Instructions for reviewers.")
@click.option(
    "--label",
    "labels",
    metavar="TEXT",
    multiple=True,
    help="A label; repeatable. [default: CORRECT, INCORRECT, UNSURE]",
)
@click.option("--answer", type=click.Choice(["label", "score", "text"]), help="Type of a vote. [default: label]")
@click.option("--low", type=float, help="Lowest score. [default: 0]")
@click.option("--high", type=float, help="Highest score. [default: 1]")
@click.option(
    "--feed",
    "feeds",
    metavar="RULE:POLICY[:SHARE]",
    multiple=True,
    help=(
        "Add results of a rule by a policy: failing, uncertainty, disagreement or random; "
        "optionally with a sampling rate."
    ),
)
@click.option(
    "--margin", type=click.FloatRange(0), help="Maximum distance from the threshold for `uncertainty`. [default: 0.1]"
)
@click.option("--against", metavar="RULE", help="Other rule for `disagreement`.")
@click.option("--reviewers", type=click.IntRange(1, 100), help="Reviewers per entry. [default: 1]")
@click.option("--open", "is_open", is_flag=True, help="Show reviewers the votes of others before they vote.")
@source_options
def create(
    *,
    name: str,
    labels: Sequence[str],
    is_open: bool,
    feeds: Sequence[str],
    **fields: Any,
) -> None:
    """Create a queue."""
    server, data = fields.pop("server"), fields.pop("data")
    one_source(server, data)
    more = {"margin": fields.pop("margin"), "against": fields.pop("against")}
    body: dict[str, object] = {key: value for key, value in fields.items() if value is not None}
    body |= {"name": name, "blind": not is_open} | ({"labels": list(labels)} if labels else {})
    with open_server(server, data) as client:
        body |= {"feeds": [_feed(client, each, **more) for each in feeds]} if feeds else {}
        made = parse_response(ReviewQueueDocument, client.post(_PATH, body))
    click.echo(f"{one_line(made.name)}: /review/{made.id}")


@review.command()
@click.argument("queue")
@click.option("--trace", "traces", metavar="ID", multiple=True, help="A trace, or a span as TRACE/SPAN.")
@click.option("--item", "items", metavar="ID", multiple=True, help="An item of a run.")
@click.option("--run", metavar="ID", help="All items of a run.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="Sampling rate of the run's items.")
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
    """Add targets to a queue (name or id)."""
    one_source(server, data)
    targets = [dict(zip(("traceId", "spanId"), each.split("/", 1), strict=False)) for each in traces]
    targets += [{"itemResultId": each} for each in items]
    body: dict[str, object] = {"targets": targets} if targets else {}
    named = {"runId": of_run["run"], "share": of_run["share"]}
    body |= {key: value for key, value in named.items() if value is not None}
    with open_server(server, data) as client:
        added = parse_response(AddedEntries, client.post(f"{_PATH}/{_queue(client, queue).id}/entries", body))
    click.echo(f"{added.added} added")


@review.command()
@click.argument("queue")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def progress(*, queue: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show the progress of a queue and of each reviewer."""
    one_source(server, data)
    with open_source(server, data) as client:
        document = client.get(f"{_PATH}/{_queue(client, queue).id}/progress")
    if as_json:
        print_json(document)
        return
    state = parse_response(ReviewProgress, document)
    click.echo(f"{state.done} of {state.entries} done, {state.votes} votes, {state.leased} in review")
    people = [(each.author, each.votes, each.skipped, each.leased) for each in state.reviewers]
    _table(("REVIEWER", "VOTES", "SKIPPED", "IN REVIEW"), people, "no reviews yet")


@review.command()
@click.argument("queue", required=False)
@click.option("--name", metavar="NAME", help="Question that votes answer, instead of a queue. [default: verdict]")
@click.option("--days", type=click.IntRange(1, 3_650), help="Only votes of the last N days.")
@click.option("--json", "as_json", is_flag=True, help="All fields as JSON, including the disagreements.")
@source_options
def agreement(
    *, queue: str | None, as_json: bool, server: str | None, data: Path | None, **parameters: str | int | None
) -> None:
    """Show the agreement of reviewers on a queue or a question."""
    one_source(server, data)
    with open_source(server, data) as client:
        about = None if queue is None else _queue(client, queue).id
        document = client.get("/api/v1/agreement", queue=about, **parameters)
    if as_json:
        print_json(document)
        return
    agreed = parse_response(AgreementDocument, document)
    click.echo(f"{agreed.shared} of {agreed.targets} were judged by at least two people, {agreed.votes} votes")
    click.echo(f"{'alpha':<14} {measure_text(agreed.alpha)}")
    if agreed.metric == "nominal":
        click.echo(f"{'Fleiss kappa':<14} {measure_text(agreed.fleiss_kappa)}")
    click.echo(agreed.in_words)
    pairs = [
        (f"{each.one}, {each.other}", each.targets, f"{each.agreed:.0%}", measure_text(each.kappa))
        for each in agreed.pairs
    ]
    if pairs:
        _table(("TWO PEOPLE", "BOTH JUDGED", "AGREED", "KAPPA"), pairs, "")


@review.command()
@click.argument("queue")
@source_options
def delete(*, queue: str, server: str | None, data: Path | None) -> None:
    """Delete a queue; the votes stay."""
    one_source(server, data)
    with open_server(server, data) as client:
        record = _queue(client, queue)
        client.delete(f"{_PATH}/{record.id}")
    click.echo(f"{one_line(record.name)} is deleted")


@review.command()
@click.argument("queue")
@source_options
def fill(*, queue: str, server: str | None, data: Path | None) -> None:
    """Fill a queue from its rules now, which otherwise happens every few seconds."""
    one_source(server, data)
    with open_server(server, data) as client:
        added = parse_response(AddedEntries, client.post(f"{_PATH}/{_queue(client, queue).id}/fill", {}))
    click.echo(f"{added.added} added")


def _feed(client: ServerClient, text: str, *, margin: float | None, against: str | None) -> dict[str, object]:
    """Parse `RULE:POLICY[:SHARE]`; the name of a rule may contain colons."""
    rule, _, last = text.rpartition(":")
    share: float | None = None
    if last.replace(".", "", 1).isdecimal():
        share = float(last)
        rule, _, last = rule.rpartition(":")
    if not rule or last not in _POLICIES:
        raise click.ClickException(f"{one_line(text)}: expected RULE:POLICY[:SHARE]; POLICY is {_POLICY_CHOICES}")
    feed: dict[str, object] = {"ruleId": rule_named(client, rule).id, "policy": last}
    feed |= {} if share is None else {"share": share}
    if last == "uncertainty" and margin is not None:
        feed["margin"] = margin
    if last == "disagreement" and against is not None:
        feed["againstRuleId"] = rule_named(client, against).id
    return feed


def _queue(client: ServerClient, named: str) -> ReviewQueueDocument:
    return one_named(parse_response(list[ReviewQueueDocument], client.whole(_PATH)), named, "review queues", "review")


def _table(titles: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    from rich.text import Text

    console = output_console()
    if not rows:
        console.print(nothing)
        return
    table = list_table()
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(str(cell))) for cell in row))
    print_list(console, table)
