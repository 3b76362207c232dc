"""`tracejury mcp`: the Model Context Protocol, for clients that start a program."""

import itertools
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from collector.cli.connecting import KEY_VARIABLE, connect_async
from collector.cli.mcp_folder import connection_of, server_of_folder
from collector.cli.options import judge_options, read_settings, server_option, take_judge
from collector.cli.whole_file import whole_file
from collector.escaping import one_line

if TYPE_CHECKING:
    from collector.mcp.application import Application

_ALONE: Final = "--data reads a directory and cannot be combined with --server or --app"
_OWN: Final = "--folder has a server of its own, and goes with neither --server nor --data"
_CLIENTS: Final = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")


@click.group(invoke_without_command=True)
@server_option
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at this data directory instead, which no server holds; nothing is changed.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Without a server: the files of this folder are evaluated, and runs are kept in its .tracejury.",
)
@click.option("--app", metavar="COMMAND", help="Your application: run_evaluation may run it over items of a dataset.")
@click.option("--app-runs", type=click.IntRange(1), metavar="N", help="Maximum number of its runs; needed with --app.")
@judge_options
@click.option("--judge-calls", type=click.IntRange(1), metavar="N", help="Calls per day; needed with --judge-model.")
@click.pass_context
def mcp(context: click.Context, /, *, server: str, **where: Any) -> None:
    """Answer a model's questions about traces and quality, over standard input and output.

    The model may read and change what the key in TRACEJURY_API_KEY permits. With --app, it may run your application on
    this machine, without a shell: the application reads an item as JSON on standard input, and prints its answer. With
    --folder, the --judge options name the model that judges or answers, at most --judge-calls times a day.
    """
    if context.invoked_subcommand is not None:
        return
    import anyio

    from collector.mcp.stdio import serve_stdio

    more, application = _checked(context, where), _application(where["app"], where["app_runs"])
    folder, data = where["folder"], where["data"]
    if folder is not None:
        with server_of_folder(folder, more) as (url, key):
            client = connect_async(url)
            client.headers["authorization"] = f"Bearer {key}"
            anyio.run(serve_stdio, client, application, folder)
    elif data is not None:
        anyio.run(_serve_directory, data)
    else:
        anyio.run(serve_stdio, connect_async(server), application)


def _checked(context: click.Context, where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a folder's server; refuse options that exclude each other."""
    is_named = context.get_parameter_source("server") is not ParameterSource.DEFAULT
    more = connection_of(take_judge(dict(where)), where["judge_calls"])
    if where["folder"] is not None and (is_named or where["data"] is not None):
        raise click.UsageError(_OWN)
    if where["data"] is not None and (is_named or where["app"] is not None):
        raise click.UsageError(_ALONE)
    if more and where["folder"] is None:
        raise click.UsageError("the --judge options are for --folder; a server has connections of its own")
    return more


async def _serve_directory(data: Path) -> None:
    from collector.local_api import looking
    from collector.mcp.stdio import serve_stdio
    from storage.errors import Unusable

    try:
        async with looking(read_settings(None, {"data": data})) as client:
            await serve_stdio(client)
    except Unusable as error:
        raise click.ClickException(one_line(str(error))) from error


def _application(command: str | None, runs: int | None) -> "Application | None":
    from collector.mcp.application import Application
    from collector.settings_loading import whole_environment

    if (command is None) is not (runs is None):
        raise click.UsageError("--app and --app-runs need each other: what may be run, and how often in all")
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise click.UsageError(f"--app: {error}") from None
    return Application(words, whole_environment(), runs=runs) if words and runs else None


@mcp.command()
@click.argument("client", type=click.Choice(_CLIENTS))
@server_option
@click.option("--over-http", is_flag=True, help="The client calls the server directly, at /mcp.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="As of `tracejury mcp`.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="As of `tracejury mcp`.")
@click.option("--app", metavar="COMMAND", help="As of `tracejury mcp`.")
@click.option("--app-runs", type=click.IntRange(1), metavar="N", help="As of `tracejury mcp`.")
@judge_options
@click.option("--judge-calls", type=click.IntRange(1), metavar="N", help="As of `tracejury mcp`.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Merge it into this file of the client.")
@click.pass_context
def install(context: click.Context, /, *, client: str, over_http: bool, write: Path | None, **how: Any) -> None:
    """Print the configuration of a client; with --write, merge it into that file.

    No key is written: the client reads it from the environment variable TRACEJURY_API_KEY, or that of --judge-key-env.
    """
    server = how.pop("server")
    if over_http and any(each is not None for each in how.values()):
        raise click.UsageError("--over-http allows only --server: others are for a program that the client starts")
    arguments = None if over_http else _arguments(context, server, how)
    variable = KEY_VARIABLE if how["folder"] is None else how["judge_key_env"]
    if client == "codex":
        if write is not None:
            raise click.UsageError("codex is configured in TOML: put what is printed into ~/.codex/config.toml")
        click.echo(_toml(server, arguments, variable))
        return
    entry = _entry(client, server, arguments, variable)
    key = "servers" if client == "vscode" else "mcpServers"
    if write is None:
        click.echo(json.dumps({key: {"tracejury": entry}}, indent=2))
        return
    _write(write, key, entry)
    click.echo(f"{write} names tracejury; restart the client")


def _arguments(context: click.Context, server: str, how: Mapping[str, Any]) -> list[str]:
    """Return the arguments for a client's configuration, validated, with absolute directories."""
    _checked(context, how)
    _application(how["app"], how["app_runs"])
    values = {name: value.absolute() if isinstance(value, Path) else value for name, value in how.items()}
    where = ["--server", server] if how["data"] is None and how["folder"] is None else []
    flags = ((f"--{name.replace('_', '-')}", str(value)) for name, value in values.items() if value is not None)
    return ["mcp", *where, *itertools.chain.from_iterable(flags)]


def _entry(client: str, server: str, arguments: Sequence[str] | None, variable: str | None) -> dict[str, Any]:
    value = f"${{env:{variable}}}" if client in {"cursor", "vscode"} else f"${{{variable}}}"
    if arguments is None:
        headers = {"Authorization": f"Bearer {value}"}
        return {"type": "http", "url": f"{server.rstrip('/')}/mcp", "headers": headers}
    environment = {} if variable is None else {"env": {variable: value}}
    return {"command": _program(), "args": list(arguments), **environment}


def _toml(server: str, arguments: Sequence[str] | None, variable: str | None) -> str:
    if arguments is None:
        lines = [f"url = {json.dumps(server.rstrip('/') + '/mcp')}", f'bearer_token_env_var = "{KEY_VARIABLE}"']
    else:
        lines = [f"command = {json.dumps(_program())}", f"args = {json.dumps(list(arguments))}"]
        lines += [] if variable is None else [f"env_vars = {json.dumps([variable])}"]
    return "\n".join(["[mcp_servers.tracejury]", *lines])


def _program() -> str:
    # An absolute path, since the client may have another PATH.
    return str(Path(sys.argv[0]).resolve()) if Path(sys.argv[0]).name == "tracejury" else "tracejury"


def _write(path: Path, key: str, entry: Mapping[str, Any]) -> None:
    from evaluators.wire import parse_json

    try:
        document = parse_json(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON, and was not changed: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.setdefault(key, {}), dict):
        raise click.ClickException(f"{path} has no object {key!r}, and was not changed")
    document[key]["tracejury"] = dict(entry)
    with whole_file(path) as file:
        file.write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode())
