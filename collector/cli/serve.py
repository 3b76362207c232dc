"""The command `tracejury serve`."""

from pathlib import Path

import click

from collector.cli.options import read_settings


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Settings in YAML; TRACEJURY_* variables and the options below override them.",
)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="The data directory.")
@click.option("--grpc", metavar="ADDR", help="Address for OTLP over gRPC; port 0 selects a free port.")
@click.option("--otlp-http", metavar="ADDR", help="Address for OTLP over HTTP.")
@click.option("--http", metavar="ADDR", help="Address of the API and the pages.")
@click.option("--rules", type=click.Path(path_type=Path), metavar="DIR", help="A folder of rules, one YAML file each.")
@click.option(
    "--sample",
    is_flag=True,
    help=("Send sample traces if the data directory is empty, and evaluate them if no rules are configured."),
)
@click.pass_context
def serve(ctx: click.Context, /, *, config: Path | None, sample: bool, **flags: object) -> None:
    """Run the server until Ctrl-C or SIGTERM.

    Prints one line of JSON with its addresses to standard output when it is ready; logs go to standard error.
    """
    settings = read_settings(config, {name: value for name, value in flags.items() if value is not None})
    from collector.memory import collect_rarely
    from collector.settings_loading import quiet_grpc

    quiet_grpc()
    collect_rarely()  # imports leave hardly any garbage, and collecting it meanwhile takes a seventh of the start
    from collector.program import serve as serve_until_stopped  # slow, so invalid settings are reported before it

    ctx.exit(serve_until_stopped(settings, with_sample=sample))
