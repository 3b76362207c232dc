"""`tracejury mcp`: the Model Context Protocol, for clients that start a program."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from collector.cli.connecting import DEFAULT_SERVER, KEY_VARIABLE, connect_async

_CLIENTS: Final = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")
_SERVER: Final = click.option(
    "--server", default=DEFAULT_SERVER, show_default=True, metavar="URL", help="The server that is asked."
)


@click.group(invoke_without_command=True)
@_SERVER
@click.pass_context
def mcp(context: click.Context, *, server: str) -> None:
    """Answer a model's questions about traces and quality, over standard input and output.

    What may be asked and changed is what the key in TRACEJURY_API_KEY may do.
    """
    if context.invoked_subcommand is None:
        import anyio

        from collector.mcp.stdio import serve_stdio

        anyio.run(serve_stdio, connect_async(server))


@mcp.command()
@click.argument("client", type=click.Choice(_CLIENTS))
@_SERVER
@click.option("--over-http", is_flag=True, help="The client asks the server itself, at /mcp.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Write it into this file of the client.")
def install(*, client: str, server: str, over_http: bool, write: Path | None) -> None:
    """Print what a client's configuration needs; with --write, put it into that file, which keeps all else.

    The key is not written: the client takes it from the environment variable TRACEJURY_API_KEY.
    """
    if client == "codex":
        if write is not None:
            raise click.UsageError("codex is configured in TOML: put what is printed into ~/.codex/config.toml")
        click.echo(_toml(server, over_http=over_http))
        return
    entry = _entry(client, server, over_http=over_http)
    key = "servers" if client == "vscode" else "mcpServers"
    if write is None:
        click.echo(json.dumps({key: {"tracejury": entry}}, indent=2))
        return
    _write(write, key, entry)
    click.echo(f"{write} names tracejury; restart the client")


def _entry(client: str, server: str, *, over_http: bool) -> dict[str, Any]:
    variable = f"${{env:{KEY_VARIABLE}}}" if client in {"cursor", "vscode"} else f"${{{KEY_VARIABLE}}}"
    if over_http:
        headers = {"Authorization": f"Bearer {variable}"}
        return {"type": "http", "url": f"{server.rstrip('/')}/mcp", "headers": headers}
    return {"command": _program(), "args": ["mcp", "--server", server], "env": {KEY_VARIABLE: variable}}


def _toml(server: str, *, over_http: bool) -> str:
    if over_http:
        lines = [f"url = {json.dumps(server.rstrip('/') + '/mcp')}", f'bearer_token_env_var = "{KEY_VARIABLE}"']
    else:
        lines = [f"command = {json.dumps(_program())}", f"args = {json.dumps(['mcp', '--server', server])}"]
        lines.append(f'env_vars = ["{KEY_VARIABLE}"]')
    return "\n".join(["[mcp_servers.tracejury]", *lines])


def _program() -> str:
    """The program where the client finds it, whatever its PATH is."""
    return str(Path(sys.argv[0]).resolve()) if Path(sys.argv[0]).name == "tracejury" else "tracejury"


def _write(path: Path, key: str, entry: Mapping[str, Any]) -> None:
    try:
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON, and is left as it is: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.setdefault(key, {}), dict):
        raise click.ClickException(f"{path} has no object {key!r}, and is left as it is")
    document[key]["tracejury"] = dict(entry)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)
