"""The command `tracejury`."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

import click

from collector.cli.terminal import prepare_output
from collector.escaping import one_line

_HALF: Final = re.compile("[\ud800-\udfff]")  # lone surrogates, in place of bytes of an argument that are not UTF-8
_READER_GONE: Final = 141
"""Exit code if stdout is closed, as a shell reports SIGPIPE. click's code, 1, means a regression in `tracejury
gate`."""

_MODULES: Final = {
    "serve": "serve",
    "status": "status",
    "health": "status",
    "traces": "traces",
    "sessions": "sessions",
    "agents": "agents",
    "sql": "sql",
    "send": "send",
    "evaluate": "evaluate",
    "evaluators": "evaluators",
    "gate": "gate",
    "gate-report": "gate",
    "rules": "rules",
    "connections": "connections",
    "jobs": "jobs",
    "alerts": "alerts",
    "webhooks": "webhooks",
    "monitors": "monitors",
    "metric-monitors": "metric_monitors",
    "datasets": "datasets",
    "experiments": "experiments",
    "simulate": "simulate",
    "runs": "runs",
    "annotations": "annotations",
    "calibration": "calibration",
    "review": "review",
    "saved-views": "saved_views",
    "sweep": "upkeep",
    "delete": "deletions",
    "deletions": "deletions",
    "reread": "upkeep",
    "backup": "upkeep",
    "check": "upkeep",
    "restore": "upkeep",
    "export": "export",
    "keys": "keys",
    "lake": "lake",
    "mcp": "mcp",
}
"""The module in `collector.cli` of each command. It is imported when the command is used, or when all are listed."""

_Callback: TypeAlias = Callable[[click.Context, click.Parameter, Any], Any]


class _Program(click.Group):
    """The command group; it turns invalid arguments into usage errors in one place."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except _invalid_urls() as error:
            raise click.ClickException(f"the arguments do not fit into a URL, pass shorter ones: {error}") from error
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # the rest of the output is flushed there
            sys.exit(_READER_GONE)
        except OSError as error:
            if error.filename is None:
                raise
            file = one_line(os.fsdecode(error.filename))
            raise click.ClickException(f"{file}: {error.strerror}; name another file or directory") from error


def _invalid_urls() -> tuple[type[Exception], ...]:
    # Unless httpx is loaded, nothing has raised its error.
    return (sys.modules["httpx"].InvalidURL,) if "httpx" in sys.modules else ()


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module = import_module(f"collector.cli.{_MODULES[name]}")
            self[name] = getattr(module, name.replace("-", "_"))
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        for parameter in _parameters(command):
            parameter.callback = partial(_checked, parameter.callback)
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


def _checked(then: _Callback | None, ctx: click.Context, param: click.Parameter, value: object) -> object:
    """Refuse text that is not Unicode and numbers that are not finite, which neither JSON nor the database can hold."""
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, str) and not each.isascii() and _HALF.search(each):
            raise click.BadParameter(f"'{one_line(each)}' is not UTF-8; pass text in UTF-8", ctx, param)
        if isinstance(each, float) and not math.isfinite(each):
            raise click.BadParameter(f"{each} is not a finite number; pass one such as 0.5", ctx, param)
    return value if then is None else then(ctx, param, value)


def _parameters(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.params
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _parameters(each)


@click.group(cls=_Program, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracejury", prog_name="tracejury")
def main() -> None:
    """Receive, keep, show and judge the OpenTelemetry traces of LLM and agent applications."""
    prepare_output()
