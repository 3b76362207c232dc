"""The command `tracejury`."""

import click

from collector.cli.alerts import alerts
from collector.cli.annotations import annotations
from collector.cli.calibration import calibration
from collector.cli.connections import connections
from collector.cli.datasets import datasets
from collector.cli.deletions import deletions
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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
