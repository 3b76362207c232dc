"""`tracejury sql`: run a query."""

import re
from pathlib import Path

import click

from collector.cli.client import open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_table, print_table_csv, print_table_json
from collector.cli.responses import parse_response
from collector.cli.views import TableView
from collector.units import count_text


class _Command(click.Command):
    """A command whose argument may begin with an SQL comment, which looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put a space before a statement that begins with a comment, so that it is not taken for an option."""
        return super().parse_args(ctx, [f" {arg}" if _COMMENT.match(arg) else arg for arg in args])


_COMMENT = re.compile(r"--(\s|.*\n)")


@click.command(cls=_Command)
@click.argument("statement", metavar="SELECT")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of objects.")
@click.option("--csv", "form", flag_value="csv", help="CSV with a header, safe for spreadsheets.")
@click.option("--raw-csv", "form", flag_value="raw-csv", help="CSV with a header, without escaping for spreadsheets.")
@source_options
def sql(*, statement: str, as_json: bool, form: str | None, server: str | None, data: Path | None) -> None:
    """Run a read-only SQL query over views such as `spans`, `traces`, `sessions` and `evaluations`."""
    one_source(server, data)
    if as_json and form is not None:
        raise click.UsageError(f"--json and --{form} exclude each other")
    with open_source(server, data) as source:
        table = parse_response(TableView, source.post("/api/v1/sql", {"sql": statement}))
    if form is not None:
        print_table_csv(table, is_raw=form == "raw-csv")
    else:
        (print_table_json if as_json else print_table)(table)
    if table.truncated:
        rows = count_text(len(table.rows), "row")
        click.echo(f"truncated: only the first {rows} are shown; add a LIMIT or a WHERE", err=True)
