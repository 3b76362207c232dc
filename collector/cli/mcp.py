"""`tracejury mcp`: the Model Context Protocol, for clients that start a program."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from collector.cli.connecting import KEY_VARIABLE, connect_async
from collector.cli.directory import read_settings
from collector.cli.options import server_option
from collector.cli.whole_file import whole_file
from collector.visible import one_line

if TYPE_CHECKING:
    from collector.mcp.application import Application

_ALONE: Final = "--data looks at a directory, and goes with neither --server nor --app"
_CLIENTS: Final = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")


@click.group(invoke_without_command=True)
@server_option
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at this data directory instead, which no server holds; nothing is changed.",
)
@click.option("--app", metavar="COMMAND", help="Your application: run_evaluation may run it over items of a dataset.")
@click.option("--app-runs", type=click.IntRange(1), metavar="N", help="How often in all; needed with --app.")
@click.pass_context
def mcp(context: click.Context, *, server: str, data: Path | None, app: str | None, app_runs: int | None) -> None:
    """Answer a model's questions about traces and quality, over standard input and output.

    What may be asked and changed is what the key in TRACEJURY_API_KEY may do. With --app, a model may have your
    application run on this machine: without a shell, an item as JSON on its standard input, its answer on the output.
    """
    if context.invoked_subcommand is None:
        import anyio

        from collector.mcp.stdio import serve_stdio

        application = _application(app, app_runs)
        if data is None:
            anyio.run(serve_stdio, connect_async(server), application)
            return
        if application is not None or context.get_parameter_source("server") is not ParameterSource.DEFAULT:
            raise click.UsageError(_ALONE)
        anyio.run(_serve_directory, data)


async def _serve_directory(data: Path) -> None:
    from collector.looking import looking
    from collector.mcp.stdio import serve_stdio
    from storage.errors import Unusable

    try:
        async with looking(read_settings(None, {"data": data})) as client:
            await serve_stdio(client)
    except Unusable as error:
        raise click.ClickException(one_line(str(error))) from error


def _application(command: str | None, runs: int | None) -> "Application | None":
    from collector.mcp.application import Application

    if (command is None) is not (runs is None):
        raise click.UsageError("--app and --app-runs need each other: what may be run, and how often in all")
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise click.UsageError(f"--app: {error}") from None
    return Application(words, runs=runs) if words and runs else None


@mcp.command()
@click.argument("client", type=click.Choice(_CLIENTS))
@server_option
@click.option("--over-http", is_flag=True, help="The client asks the server itself, at /mcp.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="As of `tracejury mcp`.")
@click.option("--app", metavar="COMMAND", help="As of `tracejury mcp`.")
@click.option("--app-runs", type=click.IntRange(1), metavar="N", help="As of `tracejury mcp`.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Write it into this file of the client.")
@click.pass_context
def install(context: click.Context, /, *, client: str, over_http: bool, write: Path | None, **how: Any) -> None:
    """Print what a client's configuration needs; with --write, put it into that file, which keeps all else.

    The key is not written: the client takes it from the environment variable TRACEJURY_API_KEY.
    """
    if over_http and (how["data"] or how["app"] or how["app_runs"]):
        raise click.UsageError("--data and --app are of the program that a client starts, and not of --over-http")
    is_named = context.get_parameter_source("server") is not ParameterSource.DEFAULT
    server, arguments = how["server"], None if over_http else _arguments(is_named=is_named, **how)
    if client == "codex":
        if write is not None:
            raise click.UsageError("codex is configured in TOML: put what is printed into ~/.codex/config.toml")
        click.echo(_toml(server, arguments))
        return
    entry = _entry(client, server, arguments)
    key = "servers" if client == "vscode" else "mcpServers"
    if write is None:
        click.echo(json.dumps({key: {"tracejury": entry}}, indent=2))
        return
    _write(write, key, entry)
    click.echo(f"{write} names tracejury; restart the client")


def _arguments(*, is_named: bool, server: str, data: Path | None, app: str | None, app_runs: int | None) -> list[str]:
    """What the client starts the program with, checked as the program checks it; a directory as an absolute path."""
    application = _application(app, app_runs)
    if data is not None and (application is not None or is_named):
        raise click.UsageError(_ALONE)
    where = ["--server", server] if data is None else ["--data", str(data.absolute())]
    return ["mcp", *where, *(("--app", str(app), "--app-runs", str(app_runs)) if application else ())]


def _entry(client: str, server: str, arguments: Sequence[str] | None) -> dict[str, Any]:
    variable = f"${{env:{KEY_VARIABLE}}}" if client in {"cursor", "vscode"} else f"${{{KEY_VARIABLE}}}"
    if arguments is None:
        headers = {"Authorization": f"Bearer {variable}"}
        return {"type": "http", "url": f"{server.rstrip('/')}/mcp", "headers": headers}
    return {"command": _program(), "args": list(arguments), "env": {KEY_VARIABLE: variable}}


def _toml(server: str, arguments: Sequence[str] | None) -> str:
    if arguments is None:
        lines = [f"url = {json.dumps(server.rstrip('/') + '/mcp')}", f'bearer_token_env_var = "{KEY_VARIABLE}"']
    else:
        lines = [f"command = {json.dumps(_program())}", f"args = {json.dumps(list(arguments))}"]
        lines.append(f'env_vars = ["{KEY_VARIABLE}"]')
    return "\n".join(["[mcp_servers.tracejury]", *lines])


def _program() -> str:
    """The program where the client finds it, whatever its PATH is."""
    return str(Path(sys.argv[0]).resolve()) if Path(sys.argv[0]).name == "tracejury" else "tracejury"


def _write(path: Path, key: str, entry: Mapping[str, Any]) -> None:
    from evaluators.wire import parse_json

    try:
        document = parse_json(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON, and is left as it is: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.setdefault(key, {}), dict):
        raise click.ClickException(f"{path} has no object {key!r}, and is left as it is")
    document[key]["tracejury"] = dict(entry)
    with whole_file(path) as file:
        file.write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode())
