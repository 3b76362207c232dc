"""The command `tracejury`."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

import click
import httpx

from collector.cli.alerts import alerts
from collector.cli.annotations import annotations
from collector.cli.calibration import calibration
from collector.cli.connections import connections
from collector.cli.datasets import datasets
from collector.cli.deletions import delete, deletions
from collector.cli.evaluate import evaluate
from collector.cli.evaluators import evaluators
from collector.cli.experiments import experiments
from collector.cli.export import export
from collector.cli.gate import gate, gate_report
from collector.cli.jobs import jobs
from collector.cli.keys import keys
from collector.cli.mcp import mcp
from collector.cli.metric_monitors import metric_monitors
from collector.cli.monitors import monitors
from collector.cli.render import prepare_output
from collector.cli.review import review
from collector.cli.rules import rules
from collector.cli.runs import runs
from collector.cli.saved_views import saved_views
from collector.cli.send import send
from collector.cli.serve import health, serve, status
from collector.cli.sessions import sessions
from collector.cli.simulate import simulate
from collector.cli.sql import sql
from collector.cli.traces import traces
from collector.cli.upkeep import backup, check, reread, restore, sweep
from collector.cli.webhooks import webhooks
from collector.visible import one_line

_HALF: Final = re.compile("[\ud800-\udfff]")  # of a surrogate pair: a byte of an argument that is no UTF-8
_READER_GONE: Final = 141
"""As a shell reports SIGPIPE. With 1, the code of click, `tracejury gate FILE | head -1` could say `regressed`."""

_Callback: TypeAlias = Callable[[click.Context, click.Parameter, Any], Any]


class _Program(click.Group):
    """The commands, and the one place where arguments that no command can use become a sentence."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        for parameter in _parameters(cmd):
            parameter.callback = partial(_checked, parameter.callback)
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except httpx.InvalidURL as error:
            raise click.ClickException(f"the arguments make no address, pass shorter ones: {error}") from error
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # what is still to be flushed
            sys.exit(_READER_GONE)
        except OSError as error:
            if error.filename is None:
                raise
            file = one_line(os.fsdecode(error.filename))
            raise click.ClickException(f"{file}: {error.strerror}; name another file or directory") from error


def _checked(then: _Callback | None, ctx: click.Context, param: click.Parameter, value: object) -> object:
    """Refuse what neither JSON nor the database can carry: bytes that are no text, and numbers that are not finite."""
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


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracejury", prog_name="tracejury")
def main() -> None:
    """Receive, keep, show and judge the OpenTelemetry traces of LLM and agent applications."""
    prepare_output()


for command in (
    serve,
    status,
    health,
    traces,
    sessions,
    sql,
    send,
    evaluate,
    evaluators,
    gate,
    gate_report,
    rules,
    connections,
    jobs,
    alerts,
    webhooks,
    monitors,
    metric_monitors,
    datasets,
    experiments,
    simulate,
    runs,
    annotations,
    calibration,
    review,
    saved_views,
    sweep,
    delete,
    deletions,
    reread,
    backup,
    check,
    restore,
    export,
    keys,
    mcp,
):
    main.add_command(command)
