"""`tracejury datasets`: cases in numbered versions, imported, exported, and promoted from traces."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

import click
import httpx

from collector.api.responses.offline import (
    ChangedItemPage,
    DatasetDetail,
    DatasetDocument,
    ImportedVersion,
    VersionDocument,
)
from collector.api_calls import error_of
from collector.cli.client import ServerClient, download, open_server, open_source
from collector.cli.connecting import NoAnswer
from collector.cli.options import one_source, server_option, source_options
from collector.cli.render import print_json, print_table
from collector.cli.responses import parse_response
from collector.cli.views import ColumnView, TableView
from collector.escaping import one_line, some_lines
from collector.path_names import path_segment
from tracejury.dataset_text import places_text
from tracejury.file_ending import ending_of

_ROOT: Final = "/api/v1/datasets"
_FORMATS: Final = ("json", "jsonl", "csv", "parquet")
_TOOLS: Final = ("deepeval", "langfuse", "openai-evals", "phoenix", "promptfoo")
_CHUNK_BYTES: Final = 1 << 18
_FILE_TIMEOUT_S: Final = 3_600
_MOST_CHANGES: Final = 1_000


json_option = click.option("--json", "as_json", is_flag=True, help="The response of the server, as JSON.")
format_option = click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="By default from the file extension."
)


@click.group()
def datasets() -> None:
    """Manage cases for an application, in immutable versions; a version is written NAME@N."""


@datasets.command("list")
@json_option
@source_options
def list_datasets(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List datasets, each with its latest version."""
    one_source(server, data)
    with open_source(server, data) as client:
        documents = client.whole(_ROOT)
    if as_json:
        print_json(documents)
        return
    rows = [
        (each.name, each.latest_version, each.latest_item_count, each.description)
        for each in parse_response(list[DatasetDocument], documents)
    ]
    _print(("name", "latest version", "items", "description"), rows)


@datasets.command()
@click.argument("name")
@json_option
@source_options
def show(*, name: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show a dataset with its versions."""
    one_source(server, data)
    with open_source(server, data) as client:
        document = client.get(_path(name))
    if as_json:
        print_json(document)
        return
    rows = [
        (each.version, each.item_count, each.added, each.removed, each.changed, each.created_at[:19], each.description)
        for each in parse_response(DatasetDetail, document).versions
    ]
    _print(("version", "items", "added", "removed", "changed", "made (UTC)", "description"), rows)


@datasets.command()
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="A description of the dataset.")
@server_option
def create(*, name: str, description: str, server: str) -> None:
    """Create a dataset without a version."""
    with open_server(server, None) as client:
        made = parse_response(DatasetDocument, client.post(_ROOT, {"name": name, "description": description}))
    click.echo(f"dataset {one_line(made.name)} is there, without a version")


@datasets.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@format_option
@click.option(
    "--from", "tool", type=click.Choice(_TOOLS), help="Tool that wrote the file; the file is converted locally."
)
@click.option(
    "--append",
    is_flag=True,
    help="Keep the items of the latest version; items of the file with the same id replace them.",
)
@click.option("--create", is_flag=True, help="Create the dataset if it does not exist.")
@click.option("--description", default="", metavar="TEXT", help="A description of the version.")
@json_option
@server_option
def import_file(*, as_json: bool, server: str, **options: Any) -> None:
    """Import a file as a new version. If it has the same items as the latest version, none is created."""
    name, file = options["name"], options["file"]
    tool = options["tool"]
    parameters = {
        "format": "jsonl" if tool else options["form"] or _format_of(file),
        "mode": "append" if options["append"] else "replace",
        "description": options["description"],
    }
    with ExitStack() as stack:
        left_out: list[str] = []
        content = stack.enter_context(_converted(file, tool, left_out) if tool else file.open("rb"))
        client = stack.enter_context(open_server(server, None))
        if options["create"]:
            _create(client, name)
        place = f"{_path(name)}/import"
        response = client.send("POST", place, params=parameters, content=_chunks(content), timeout=_FILE_TIMEOUT_S)
    if response.status_code == httpx.codes.NOT_FOUND and not options["create"]:
        raise NoAnswer(f"{some_lines(error_of(response) or 'HTTP 404')}; --create makes the dataset")
    document = client.content(response)
    _echo_version(document, as_json=as_json, is_new=response.status_code == httpx.codes.CREATED)
    imported = parse_response(ImportedVersion, document)
    _echo_left_out(imported.left_out, imported.left_out_places, "rows without a value")
    _echo_left_out(len(left_out), left_out, "without an input")


@datasets.command()
@click.argument("version", metavar="NAME[@N]")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@format_option
@server_option
def export(*, version: str, file: Path, form: str | None, server: str) -> None:
    """Export a version to a file. Importing the file again gives the same version."""
    name, number = _parts(version)
    place = f"{_path(name)}/versions/{number}/export"
    download(server, place, {"format": form or _format_of(file)}, file)


@datasets.command()
@click.argument("version", metavar="NAME[@N]")
@click.option("--base", metavar="N", help="Version to compare with. [default: the previous one]")
@json_option
@source_options
def diff(*, version: str, base: str | None, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show what a version adds, removes and changes."""
    name, number = _parts(version)
    one_source(server, data)
    with open_source(server, data) as client:
        document = client.get(f"{_path(name)}/versions/{number}/diff", base=base, size=_MOST_CHANGES)
    if as_json:
        print_json(document)
        return
    changes = parse_response(ChangedItemPage, document)
    _print(("status", "id"), [(each.status, each.id) for each in changes.content])
    if changes.total_elements > len(changes.content):
        click.echo(f"and {changes.total_elements - len(changes.content):,} more", err=True)


@datasets.command()
@click.argument("name")
@click.option("--trace", "trace_id", metavar="ID", help="A trace; with --span, a span of it.")
@click.option("--span", "span_id", metavar="ID", help="A span of the trace.")
@click.option(
    "--session", "session_id", metavar="ID", help="A session: its last input, with the conversation before it."
)
@click.option("--item", "item_id", metavar="ID", help="An item of a run, by its number from `experiments show`.")
@click.option("--expected", metavar="TEXT", help="The expected output.")
@click.option("--use-output", is_flag=True, help="Use the recorded output as the expected output.")
@json_option
@server_option
def promote(*, name: str, as_json: bool, server: str, **options: Any) -> None:
    """Add recorded data to a dataset as a new version. Items that it already has are not added again."""
    item = {
        "traceId": options["trace_id"],
        "spanId": options["span_id"],
        "sessionId": options["session_id"],
        "itemResultId": options["item_id"],
        "overriddenExpectedOutput": options["expected"],
        "useOutput": options["use_output"],
    }
    with open_server(server, None) as client:
        document = client.post(f"{_ROOT}/promote", {"datasetName": name, "items": [item]})
    _echo_version(document, as_json=as_json, is_new=None)


@datasets.command()
@click.argument("name")
@click.confirmation_option(prompt="Delete the dataset and all of its versions?")
@server_option
def delete(*, name: str, server: str) -> None:
    """Delete a dataset with all of its versions."""
    with open_server(server, None) as client:
        client.delete(_path(name))
    click.echo(f"dataset {one_line(name)} is deleted")


def _path(name: str) -> str:
    return f"{_ROOT}/{path_segment(name)}"


def _parts(version: str) -> tuple[str, str]:
    name, _, number = version.partition("@")
    return name, path_segment(number) or "latest"


def _format_of(file: Path) -> str:
    form = ending_of(file)
    if form not in _FORMATS:
        raise click.UsageError(f"--format is needed: {one_line(file.name)} ends in none of {', '.join(_FORMATS)}")
    return form


def _converted(file: Path, tool: str, left_out: list[str]) -> IO[bytes]:
    """Convert the file of another tool to JSONL; refuse the whole file if any part is wrong."""
    from collector.datasets.importers.reading import BadExport
    from collector.datasets.importers.tools import lines_of

    made = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    try:
        made.writelines(lines_of(file, tool, left_out.append))
    except BadExport as error:
        made.close()
        raise click.ClickException(one_line(str(error))) from None
    made.seek(0)
    return made


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk


def _create(client: ServerClient, name: str) -> None:
    response = client.send("POST", _ROOT, json={"name": name})
    if response.status_code != httpx.codes.CONFLICT:
        client.content(response)


def _echo_version(document: object, *, as_json: bool, is_new: bool | None) -> None:
    if as_json:
        print_json(document)
        return
    made = parse_response(VersionDocument, document)
    same = "" if is_new is not False else " (the same as before)"
    counts = f"{made.item_count:,} items: {made.added:,} added, {made.removed:,} removed, {made.changed:,} changed"
    click.echo(f"dataset://{one_line(made.dataset_name)}@{made.version}{same}: {counts}")


def _echo_left_out(count: int, places: Sequence[str], of: str) -> None:
    if count:
        click.echo(f"left out: {one_line(places_text(places, of, count))}", err=True)


def _print(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in names)
    print_table(TableView(columns=columns, rows=tuple(rows), truncated=False))
