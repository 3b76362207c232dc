"""The command `tracejury serve`."""

from pathlib import Path

import click

from collector.cli.options import read_settings


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Settings in YAML; TRACEJURY_* variables and the options below are stronger.",
)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where spans are kept.")
@click.option("--grpc", metavar="ADDR", help="Where OTLP over gRPC is taken; port 0 picks one.")
@click.option("--otlp-http", metavar="ADDR", help="Where OTLP over HTTP is taken.")
@click.option("--http", metavar="ADDR", help="Where the API listens.")
@click.option("--rules", type=click.Path(path_type=Path), metavar="DIR", help="A folder of rules, one YAML file each.")
@click.option(
    "--sample",
    is_flag=True,
    help="Send a few sample traces if the data directory is empty, and judge them if no rules are set.",
)
@click.pass_context
def serve(ctx: click.Context, /, *, config: Path | None, sample: bool, **flags: object) -> None:
    """Take spans in until Ctrl-C or SIGTERM.

    One JSON line on standard output says when it is ready and where it listens; logs go to standard error.
    """
    settings = read_settings(config, {name: value for name, value in flags.items() if value is not None})
    from collector.memory import collect_rarely
    from collector.settings_loading import quiet_grpc

    quiet_grpc()
    collect_rarely()  # what is imported next is no garbage: to look at it again and again takes a seventh of the start
    from collector.program import serve as serve_until_stopped  # after the settings: a wrong one is told at once

    ctx.exit(serve_until_stopped(settings, with_sample=sample))
