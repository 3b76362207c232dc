"""`tracejury lake`: rules and evaluators over months of traces that moved to the lake."""

import datetime as dt
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import httpx
from msgspec import structs

from collector.cli.client import LONG_S, ServerClient, open_server
from collector.cli.lookups import rule_named, rule_path
from collector.cli.options import server_option
from collector.cli.render import counting
from collector.cli.responses import parse_response
from collector.cli.times import PAST
from collector.cli.views import TableView
from collector.escaping import one_line
from collector.units import count_text

if TYPE_CHECKING:
    from collector.api.responses.lake import CaseResultDocument, LakeDocument
    from collector.live.jobs.lake_bucket import CaseToJudge, LakeJob
    from storage.judging.job_results import JobResult
    from storage.judging.jobs import Job


_SPAN_OF: Final = """
    SELECT 1 FROM spans
    WHERE project = $project AND start_time >= $from::TIMESTAMPTZ AT TIME ZONE 'UTC'
        AND start_time < $to::TIMESTAMPTZ AT TIME ZONE 'UTC'
    LIMIT 1
"""
_TRIES: Final = 10
_BUSY_S: Final = 5.0  # between attempts while the server makes calls of others; guesses
_PRINT_S: Final = 30.0  # between lines about the progress where no terminal shows it; a guess
_TIMEOUTS: Final = 3  # after which a case is not tried again; a guess


class _Interrupted(click.ClickException):
    exit_code = 130  # by convention: 128 + SIGINT


@click.group()
def lake() -> None:
    """Evaluate traces that moved to the lake."""


def _job_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option("--from", "from_time", type=PAST, required=True, help="Only what started since then."),
        click.option("--to", "to_time", type=PAST, required=True, help="Only what started before then."),
        click.option(
            "--ray", metavar="ADDRESS", help="Cluster to run on: its address, `auto` or `local`. [default: processes]"
        ),
        server_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@lake.command("backfill")
@click.argument("name", metavar="RULE")
@click.option("--project", metavar="NAME", help="Project of the rule, if several rules have that name.")
@_job_options
def backfill(*, name: str, project: str | None, server: str, **options: Any) -> None:
    """Run a rule (name or id) over traces in the lake. A repeated command continues where it stopped."""
    from collector.api.responses.lake import LakeRuleDocument

    with open_server(server, None) as source:
        place = rule_path(rule_named(source, name, project))
        rule = parse_response(LakeRuleDocument, source.get(f"{place}/lake"))
        document = json.dumps(rule.document)
        of_rule = {"rule_id": rule.rule_id, "revision": rule.revision, "tenant": rule.tenant}
        _run(source, of_rule | {"rule": document}, place=place, **options)


@lake.command("evaluate")
@click.argument("evaluator")
@click.option("--config", metavar="JSON|@FILE", help="Its configuration.")
@click.option("--target", type=click.Choice(["trace", "span"]), default="trace", show_default=True)
@click.option("--project", metavar="NAME", help="Only traces of this project.")
@click.option("--tenant", default="", metavar="NAME", help="Only traces of this tenant.")
@_job_options
def evaluate(
    *, evaluator: str, config: str | None, target: str, project: str | None, tenant: str, server: str, **options: Any
) -> None:
    """Try an evaluator on traces in the lake. A repeated command continues where it stopped."""
    from collector.cli.evaluate import configuration_of
    from collector.evaluation.rule_check import read_rule
    from rules.errors import BadRule
    from rules.rule_text import parse_json

    rule = {"name": evaluator, "evaluator": evaluator, "config": dict(configuration_of(config))}
    document = json.dumps(rule | {"target": target.upper()} | ({} if project is None else {"project": project}))
    try:
        read_rule(lambda: parse_json(document))
    except BadRule as error:
        problems = "; ".join(f"{each.key}: {each.message}" for each in error.problems)
        raise click.ClickException(one_line(problems)) from error
    with open_server(server, None) as source:
        if project is not None:
            _refuse_unknown(source, project, options["from_time"], options["to_time"])
        of_rule = {"rule_id": None, "revision": None, "tenant": tenant, "rule": document}
        _run(source, of_rule, place=None, **options)


def _run(
    source: ServerClient,
    of_rule: Mapping[str, Any],
    *,
    place: str | None,
    from_time: dt.datetime,
    to_time: dt.datetime,
    ray: str | None,
) -> None:
    from collector.api.responses.lake import LakeDocument
    from collector.children.process import ChildFailed
    from collector.live.jobs.lake_run import JobStopped, run_job
    from collector.live.jobs.work.examiner import NotExamined
    from storage.errors import StorageError

    if from_time >= to_time:
        raise click.UsageError("--from must be before --to")
    state = parse_response(LakeDocument, source.get("/api/v1/lake"))
    bounds = {"from_ns": _ns(from_time), "to_ns": _ns(to_time)}
    counts = Counter[str]()
    try:
        job = _job(state, **of_rule, **bounds)
        _refuse(job, may_ask=place is not None)
        ask = _Judge(source, place or "") if job.active.executor_kind == "judge" else None
        run_job(job, ask, ray, partial(_counting, job.id), counts)
    except KeyboardInterrupt:
        raise _Interrupted("interrupted; what is evaluated is kept: repeat the command to continue") from None
    except (JobStopped, StorageError, NotExamined, ChildFailed) as error:
        raise click.ClickException(f"{_endings(counts)}{one_line(str(error))}") from error
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed; install tracejury[lake]") from error
    click.echo(
        f"{_endings(counts) or 'no results were added; '}the results are in the view backfill_results, job {job.id}"
    )
    if counts["failed"]:
        raise click.ClickException(
            f"{count_text(counts['failed'], 'evaluation')} failed; repeat the command to evaluate the failed ones again"
        )


def _endings(counts: Counter[str]) -> str:
    return "".join(f"{count:,} {ending}, " for ending, count in sorted(counts.items()))[:-2] + ("; " if counts else "")


def _refuse_unknown(source: ServerClient, project: str, from_time: dt.datetime, to_time: dt.datetime) -> None:
    parameters = {"project": project, "from": from_time.isoformat(), "to": to_time.isoformat()}
    if not parse_response(TableView, source.post("/api/v1/sql", {"sql": _SPAN_OF, "parameters": parameters})).rows:
        raise click.ClickException(f"no span of the project {one_line(project)} started in this interval")


def _ns(time_: dt.datetime) -> int:
    return int(time_.timestamp()) * 10**9 + time_.microsecond * 1000


def _job(state: "LakeDocument", **of_job: Any) -> "LakeJob":
    from collector.live.jobs.lake_bucket import LakeJob
    from storage.lake.scope import LakeScope

    scope = LakeScope(**{each.name: getattr(state, each.name) for each in fields(LakeScope)})
    return LakeJob(uri=state.uri, scope=scope, own=state.attribute_keys, prices=state.model_prices, **of_job)


def _refuse(job: "LakeJob", *, may_ask: bool) -> None:
    active = job.active
    if active.rule.target == "SESSION" or active.rule.after is not None:
        what = "sessions" if active.rule.target == "SESSION" else "results of another rule"
        raise click.ClickException(
            f"the rule {one_line(active.rule.name)} needs {what}, which jobs over the lake do not read; "
            "use a rule about traces or spans"
        )
    if active.executor_kind == "code":
        raise click.ClickException(f"{active.rule.evaluator} runs a program, which the server alone may start")
    if active.executor_kind == "judge" and not may_ask:
        raise click.ClickException(
            f"{active.rule.evaluator} calls a model, whose connection and budget a rule has: "
            "make a rule of it, which may be switched off, and use `tracejury lake backfill`"
        )


@contextmanager
def _counting(job_id: str, traces: int, is_rest: bool) -> Iterator[Callable[[int], None]]:  # noqa: FBT001 - see `Counting`
    click.echo(f"job {job_id}: {count_text(traces, 'trace')}{' left' if is_rest else ''}", err=True)
    with counting(f"of {traces:,} traces", traces) as advance:
        done, printed_s = 0, time.monotonic()

        def count(more: int) -> None:
            nonlocal done, printed_s
            done += more
            advance(more)
            if not sys.stderr.isatty() and time.monotonic() - printed_s > _PRINT_S:
                click.echo(f"{done:,} of {traces:,} traces", err=True)
                printed_s = time.monotonic()

        yield count


@dataclass(slots=True)
class _Judge:
    """The server's judge of a rule, within its budgets. For several threads."""

    source: ServerClient
    place: str
    _answered: int = 0

    def __call__(self, target: "Job", case: "CaseToJudge") -> "JobResult":
        """Evaluate a case. A timeout is a failure if other cases get results meanwhile, else the judge is unavailable.

        Raises:
            JobStopped: the judge cannot be called now.
        """
        from collector.live.jobs.lake_run import WAITS, JobStopped
        from storage.judging.job_results import JobResult

        about = {"tenant": target.tenant, "project": target.project, "traceId": target.trace_id}
        about |= {"spanId": target.span_id, "case": case.text}
        body = about | {"part": None if case.part is None else list(case.part)}
        before = self._answered
        document = self._ask(body)
        for _ in range(1, _TIMEOUTS):
            document = self._ask(body) if document.error_kind == "timeout" else document
        is_case_too_long = document.error_kind == "timeout" and self._answered > before
        if document.error_kind in WAITS and not is_case_too_long:
            raise JobStopped(f"{document.reason}; the rest is left: repeat the command to continue")
        self._answered += not is_case_too_long
        return JobResult(job_id=case.number, **structs.asdict(document))

    def _ask(self, body: Mapping[str, object]) -> "CaseResultDocument":
        from collector.api.responses.lake import CaseResultDocument

        send = partial(self.source.send, "POST", f"{self.place}/judge-case", json=body, timeout=LONG_S)
        response = send()
        for _ in range(_TRIES):
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(_BUSY_S)
            response = send()
        return parse_response(CaseResultDocument, self.source.content(response))
