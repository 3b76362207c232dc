"""The command `tracejury`."""

import click

from collector.cli.evaluate import evaluate
from collector.cli.evaluators import evaluators
from collector.cli.render import prepare_output
from collector.cli.rules import rules
from collector.cli.send import send
from collector.cli.serve import serve
from collector.cli.sql import sql
from collector.cli.traces import traces


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracejury", prog_name="tracejury")
def main() -> None:
    """Receive, keep, show and judge the OpenTelemetry traces of LLM and agent applications."""
    prepare_output()


for command in (serve, traces, sql, send, evaluate, evaluators, rules):
    main.add_command(command)
