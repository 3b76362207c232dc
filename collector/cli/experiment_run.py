"""`tracejury experiments run`: an experiment from a file, without code."""

import asyncio
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from collector.api.responses.offline import BegunRun, ReportedKeys, RunDetail, RunItemDocument, VersionDocument
from collector.cli.client import ServerClient, fetch, open_server
from collector.cli.connecting import connect_async
from collector.cli.options import judge_options, server_option, take_judge
from collector.cli.render import counting, print_json
from collector.cli.responses import parse_response
from collector.cli.run_files import form_of, server_of_command, write_run
from collector.cli.run_text import print_run
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.units import count_text
from storage.rates import pass_rate

if TYPE_CHECKING:
    from collector.experiment_runner.plan import Plan
    from collector.experiment_runner.tasks import Task
    from tracejury.dataset_text import ItemText
    from tracejury.simulation import Simulation

NOT_RUN: Final = 2
_BELOW: Final = 1
_INCONCLUSIVE: Final = 3  # the same exit code as that of the gate
_SHOWN_ITEMS: Final = 20
_PAGE_ITEMS: Final = 1_000
_NOT_THE_AGENTS: Final = frozenset({"simulator", "budget"})
_URI: Final = "dataset://"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_GOING_ON: Final = frozenset({"RUNNING", "SUCCESS", "EVALUATING"})
"""States of a run that can be resumed. No items are left after the first; the end of one that FAILED is refused."""


class ExperimentNotRun(click.ClickException):
    """The experiment failed or is incomplete, or its result could not be read."""

    exit_code = NOT_RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The file, and the options that the run depends on."""

    file: Path
    server: str
    run_key: str
    trials: int | None
    git_sha: str | None
    git_branch: str | None
    judge: Mapping[str, Any] | None
    is_kept: bool

    @property
    def remedy(self) -> str:
        """Say how to continue an interrupted run."""
        return f"--run-key {self.run_key} resumes it" if self.is_kept else "its results are not kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cases:
    """Cases, and their dataset on the server, if any."""

    items: "Sequence[ItemText]"
    name: str | None = None
    version: int | None = None


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--run-key", metavar="KEY", help="Resume the run with this key, or start it.")
@click.option("--trials", type=click.IntRange(1, 10_000), help="Trials per case, overriding FILE.")
@click.option("--git-sha", metavar="SHA", help="Commit of the code.")
@click.option("--git-branch", metavar="NAME", help="Branch of the code; the gate selects a baseline by it.")
@click.option("--min-pass-rate", type=click.FloatRange(0, 1), help="Exit with 1 if fewer judged items pass.")
@click.option("--json", "as_json", is_flag=True, help="The run as the server tells it, as JSON.")
@click.option("--no-server", is_flag=True, help="Use no server and keep only the reports.")
@click.option("--report", "reports", type=_FILE, multiple=True, help="Also write JSON, CSV, Markdown, HTML or JUnit.")
@judge_options
@server_option
@click.pass_context
def run_file(context: click.Context, /, *, min_pass_rate: float | None, as_json: bool, **options: Any) -> None:
    """Run a command or an endpoint on each case of a dataset, or against simulated users, and evaluate the results.

    FILE defines the experiment in YAML. Items are stored while the run goes on; --run-key resumes an interrupted run.
    """
    judge = take_judge(options)
    is_kept, reports = not options.pop("no_server"), options.pop("reports")
    for each in reports:
        form_of(each)  # an unknown file extension is an error before the run
    with ExitStack() as stack:
        if not is_kept:
            options["server"] = stack.enter_context(server_of_command())
        options["run_key"] = options["run_key"] or uuid.uuid4().hex
        choice = _Choice(judge=judge, is_kept=is_kept, **options)
        try:
            run_id = asyncio.run(_conduct(choice))
            document, chances = _stored(choice.server, run_id)
            for each in reports:
                write_run(choice.server, run_id, each)
        except click.UsageError:
            raise
        except click.ClickException as error:
            raise ExperimentNotRun(error.format_message()) from error
        except KeyboardInterrupt:
            context.exit(NOT_RUN)
    if as_json:
        print_json(document)
    else:
        print_run(document)
        for k, chance, cases in chances:
            click.echo(f"pass^{k} {chance:.1%}, of {count_text(cases, 'case')}")
    context.exit(_exit_code(parse_response(RunDetail, document), min_pass_rate))


def _stored(server: str, run_id: str) -> tuple[Any, list[tuple[int, float, int]]]:
    """Return a run as stored on the server, and the chances that all of k trials pass."""
    try:
        with open_server(server, None) as client:
            return client.get(f"/api/v1/runs/{run_id}", size=_SHOWN_ITEMS), _chances(client, run_id)
    except click.ClickException as error:
        shown = f"the run is stored; tracejury experiments show {run_id}"
        raise ExperimentNotRun(f"{error.format_message()}; {shown}") from error


def _exit_code(run: RunDetail, least: float | None) -> int:
    """Report why a run failed, and return the exit code; an item that was not judged proves nothing."""
    unknown = run.error_items + run.not_evaluated_items
    rate = pass_rate(run.passed_items, run.not_passed_items)
    if rate is None and (unknown or least is not None):
        click.echo(
            f"none of {count_text(run.total_items, 'item')} was judged: {count_text(run.error_items, 'error')}, "
            f"{run.not_evaluated_items} without a verdict, {run.unjudged_items} not judged",
            err=True,
        )
        return _INCONCLUSIVE
    if rate is None or least is None:
        return 0
    if rate < least:
        of = count_text(run.passed_items + run.not_passed_items, "judged item")
        click.echo(f"{rate:.1%} of {of} passed, and {least:.1%} are needed", err=True)
        return _BELOW
    if (pass_rate(run.passed_items, run.not_passed_items + unknown) or 0.0) < least:
        click.echo(
            f"{count_text(unknown, 'item')} could not be judged, so that it is not known whether {least:.1%} pass",
            err=True,
        )
        return _INCONCLUSIVE
    return 0


def _is_known(item: RunItemDocument) -> bool:
    # Errors of the simulated user, or of its budget, say nothing about the application.
    if item.outcome == "error":
        return item.error_kind not in _NOT_THE_AGENTS
    return item.outcome in {"passed", "not_passed"}


def _chances(client: ServerClient, run_id: str) -> list[tuple[int, float, int]]:
    """Return for each k the chance that k trials of a case all pass, and the number of cases; empty for single trials.

    Trials whose simulated user failed, or that have no verdict, say nothing about the application and are left out.
    """
    from rules.statistics.formulas.trials import pass_hat_k

    trials: Counter[str | None] = Counter()
    passes: Counter[str | None] = Counter()
    page: int | None = 0
    while page is not None:
        items = parse_response(RunDetail, client.get(f"/api/v1/runs/{run_id}", size=_PAGE_ITEMS, page=page)).items
        counted = [each for each in items.content if _is_known(each)]
        trials.update(each.item_key for each in counted)
        passes.update(each.item_key for each in counted if each.outcome == "passed")
        page = None if items.last else page + 1
    most = max(trials.values(), default=0)
    chances = []
    for k in range(1, most + 1) if most > 1 else ():
        hats = [hat for key, count in trials.items() if (hat := pass_hat_k(count, passes[key], k)) is not None]
        chances.append((k, sum(hats) / len(hats), len(hats)))
    return chances


async def _conduct(choice: _Choice) -> str:
    """Run the whole experiment; return the id of the run."""
    from collector.cli.run_delivery import Undelivered
    from collector.experiment_runner.plan import Plan
    from collector.plan_file import BadPlan, read_plan_file
    from evaluators.errors import BadConfiguration

    try:
        plan = read_plan_file(choice.file, Plan)
        simulation = _simulation(choice, plan)
        run_id = await _run(choice, plan, _cases(choice, plan, simulation), simulation)
    except (BadPlan, BadConfiguration) as error:
        raise ExperimentNotRun(f"{choice.file}: {one_line(str(error))}") from None
    except Undelivered as error:
        raise ExperimentNotRun(f"the server does not take items: {error}; {choice.remedy}") from None
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(f"stopped; {choice.remedy}", err=True)
        raise
    with open_server(choice.server, None) as client:
        client.patch(f"/api/v1/runs/{run_id}", {"status": "SUCCESS"})
    return run_id


async def _run(choice: _Choice, plan: "Plan", cases: _Cases, simulation: "Simulation | None") -> str:
    """Run the items that the run lacks. A bad task or evaluator raises an error before the run is created."""
    from collector.cli.run_delivery import deliver
    from collector.evaluation.batch import judged_evaluators
    from collector.experiment_runner.conductor import Conductor

    async with AsyncExitStack() as stack:
        make = await stack.enter_async_context(judged_evaluators(choice.judge))
        evaluators = [make(each.evaluator, each.config) for each in plan.evaluators]
        _check_names([each.name for each in evaluators])
        conductor = Conductor(
            task=await stack.enter_async_context(_task(choice, plan, simulation)),
            evaluators=evaluators,
            parallelism=plan.parallelism,
            link_traces=plan.link_traces,
            is_stored=cases.version is not None,
        )
        run_id, known = _begin(choice, plan, cases)
        trials = range(1, (choice.trials or plan.trials) + 1)
        left = [(item, trial) for trial in trials for item in cases.items if (item.item_id, trial) not in known]
        client = await stack.enter_async_context(connect_async(choice.server))
        advance = stack.enter_context(counting(f"of {len(left):,} items"))
        items = await stack.enter_async_context(aclosing(conductor.items(left, run_id)))
        await deliver(client, f"/api/v1/runs/{run_id}/items", items, advance)
    return run_id


@asynccontextmanager
async def _task(choice: _Choice, plan: "Plan", simulation: "Simulation | None") -> "AsyncIterator[Task]":
    """Open the task that runs each case: a simulated conversation, or the plan's task."""
    from collector.experiment_runner.tasks import task_of
    from collector.settings_loading import whole_environment

    if plan.task is not None:
        async with task_of(plan.task, choice.file.absolute().parent, whole_environment()) as task:
            yield task
    elif simulation is not None:
        from collector.experiment_runner.cases import conversing
        from tracejury.tracing import init

        init(plan.project, url=choice.server)
        yield conversing(simulation)


def _simulation(choice: _Choice, plan: "Plan") -> "Simulation | None":
    """Return the plan's simulation, whose paths are relative to its own file."""
    if plan.simulation is None:
        return None
    from collector.plan_file import BadPlan, read_plan_file
    from collector.settings_loading import environment_variable
    from collector.simulating.making import simulation_of
    from collector.simulating.plan import SimulationPlan

    file = choice.file.absolute().parent / plan.simulation
    try:
        return simulation_of(read_plan_file(file, SimulationPlan), file.parent, environment_variable)
    except BadPlan as error:
        raise BadPlan(f"simulation: {plan.simulation}: {error}") from None


def _check_names(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ExperimentNotRun(f"two evaluators are called {one_line(twice)}; give one of them another config.name")


def _cases(choice: _Choice, plan: "Plan", simulation: "Simulation | None") -> _Cases:
    """Return the cases: of a dataset on the server, of a file beside the plan, or the scenarios of the simulation."""
    from collector.experiment_runner.cases import form_of, read_cases
    from collector.plan_file import BadPlan

    if plan.dataset is None:
        from collector.experiment_runner.cases import cases_of

        return _Cases(items=() if simulation is None else cases_of(simulation))
    if not plan.dataset.startswith(_URI):
        path = choice.file.absolute().parent / plan.dataset
        form = form_of(path)
        try:
            with path.open("rb") as file:
                return _Cases(items=read_cases(file, form))
        except OSError as error:
            raise BadPlan(f"dataset: {plan.dataset}: {error.strerror}") from None
    name, _, number = plan.dataset.removeprefix(_URI).partition("@")
    if not name or not number:
        raise BadPlan(f"dataset: {plan.dataset} says no version; {_URI}NAME@N and {_URI}NAME@latest do")
    place = f"/api/v1/datasets/{path_segment(name)}/versions"
    with open_server(choice.server, None) as client:
        stored = parse_response(VersionDocument, client.get(f"{place}/{path_segment(number)}"))
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "items.jsonl"
        fetch(choice.server, f"{place}/{stored.version}/export", {"format": "jsonl"}, kept)
        with kept.open("rb") as file:
            return _Cases(items=read_cases(file, "jsonl"), name=name, version=stored.version)


def _begin(choice: _Choice, plan: "Plan", cases: _Cases) -> tuple[str, set[tuple[str | None, int]]]:
    """Begin or resume the run of the key; return its id, and the items and trials that it has already."""
    body = {
        "experimentName": plan.experiment,
        "description": plan.description,
        "runKey": choice.run_key,
        "metadata": dict(plan.metadata),
        "trials": choice.trials or plan.trials,
        "gitSha": choice.git_sha,
        "gitBranch": choice.git_branch,
        "datasetName": cases.name,
        "datasetVersion": cases.version,
        "triggeredBy": "tracejury experiments run",
    }
    with open_server(choice.server, None) as client:
        begun = parse_response(BegunRun, client.post(f"/api/v1/projects/{path_segment(plan.project)}/runs", body))
        if begun.status not in _GOING_ON:
            raise ExperimentNotRun(
                f"the run of the key {choice.run_key} is {begun.status}; another --run-key begins another"
            )
        known: set[tuple[str | None, int]] = set()
        after: int | None = 0
        while after is not None:
            page = parse_response(ReportedKeys, client.get(f"/api/v1/runs/{begun.run_id}/keys", after=after))
            known |= {(each.item_key, each.trial) for each in page.content}
            after = page.next
    return begun.run_id, known
