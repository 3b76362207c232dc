"""Options that several commands share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from collector.cli.connecting import DEFAULT_SERVER, URL_VARIABLE, default_server
from collector.escaping import one_line, some_lines

if TYPE_CHECKING:
    from collector.settings import Settings
    from storage.records import JsonValue

Command = TypeVar("Command", bound=Callable[..., object])

_DEFAULT = f"[default: {URL_VARIABLE}, else {DEFAULT_SERVER}]"

server_option = click.option("--server", default=default_server, metavar="URL", help=f"The running server. {_DEFAULT}")


def source_options(command: Command) -> Command:
    """Add `--server` and `--data`: where to read from."""
    data = click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="A data directory: use the server that holds it, or read its files if none runs.",
    )
    server = click.option("--server", metavar="URL", help=f"A running server. {_DEFAULT}")
    return server(data(command))


def read_yaml(file: Path) -> "JsonValue":
    """Read a YAML file (`-`: standard input) as rule files are read: dates remain text.

    Raises:
        click.ClickException: the file cannot be read, or is not YAML; the message names the line.
    """
    from rules.errors import BadRule
    from rules.tree import read_tree

    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            return read_tree(opened.read()).plain()
    except OSError as error:
        raise click.ClickException(f"{one_line(str(file))} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{one_line(str(file))} is not UTF-8: {error.reason}") from error
    except BadRule as error:
        message = "\n".join(f"{file}:{each.line}: {each.message}" for each in error.problems)
        raise click.ClickException(some_lines(message)) from error


def one_source(server: str | None, data: Path | None) -> None:
    """Refuse both options at once.

    Raises:
        click.UsageError: both are set.
    """
    if server is not None and data is not None:
        raise click.UsageError("--server and --data exclude each other")


def judge_options(command: Command) -> Command:
    """Add `--judge-…`: the model that judges unless a configuration names another."""
    options = [
        click.option("--judge-base-url", metavar="URL", help="Base URL of the judge's API, up to /v1."),
        click.option("--judge-model", metavar="MODEL", help="The model that judges."),
        click.option(
            "--judge-protocol",
            type=click.Choice(["RESPONSES", "CHAT_COMPLETIONS", "ANTHROPIC"], case_sensitive=False),
            help="Protocol of the API. [default: RESPONSES]",
        ),
        click.option("--judge-key-env", metavar="NAME", help="Environment variable with the API key."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def take_judge(options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the options of `judge_options`, and return them in the form of `config.judge`; None without any.

    Raises:
        click.UsageError: the base URL or the model is missing.
    """
    names = {
        "baseUrl": "judge_base_url",
        "model": "judge_model",
        "protocol": "judge_protocol",
        "keyEnv": "judge_key_env",
    }
    values = {key: options.pop(name) for key, name in names.items()}
    judge = {key: value for key, value in values.items() if value is not None}
    if judge and not judge.keys() >= {"baseUrl", "model"}:
        raise click.UsageError("a judge needs --judge-base-url and --judge-model")
    return judge or None


def read_settings(file: Path | None, flags: Mapping[str, object]) -> "Settings":
    """Read the settings.

    Raises:
        click.ClickException: settings are invalid; the message names their keys.
    """
    from collector.settings import BadSettings
    from collector.settings_loading import load_settings

    try:
        return load_settings(file, flags)
    except BadSettings as error:
        raise click.ClickException(one_line(str(error))) from error
