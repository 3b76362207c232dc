"""Tests over datasets: one test for each example and repeat, reported as a run of the session.

    @pytest.mark.tracejury(dataset="dataset://qa@3", repeats=3)
    def test_answers(example, record):
        record.outputs(answer(example.input))
        record.score("exact", record.output == example.expected_output)

Nothing is imported and no request is sent before a test has the mark.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tracejury.client import Client
    from tracejury.dataset import Dataset, Example
    from tracejury.reporter import Reporter, Start
    from tracejury.results import ItemResult
    from tracejury.score import Score

_MARK: Final = "tracejury"
_SESSION: Final = "PYTEST_XDIST_TESTRUNUID"
_DATASETS: Final = ("dataset", "json", "jsonl", "csv")
_OPTIONS: Final = frozenset({*_DATASETS, "repeats", "experiment", "project", "metadata"})
_SHOWN_CHARACTERS: Final = 40  # length of an input in the name of a test


class Recording:
    """Outputs and scores that a test records for its example."""

    def __init__(self) -> None:
        self._outputs: Mapping[str, Any] = {}
        self.scores: list[Score] = []

    def outputs(self, outputs: Any) -> None:
        """Record the application's answer: an `AgentTrace`, a mapping, or the one output."""
        from tracejury.agent_trace import outputs_of

        self._outputs = outputs_of(outputs)

    @property
    def output(self) -> Any:
        """Return the primary output."""
        return self._outputs.get("output")

    def told(self) -> Mapping[str, Any]:
        """Return all outputs."""
        return self._outputs

    def score(self, name: str, said: Any, **more: Any) -> None:
        """Record an evaluator's result: a number, a bool, or a `Score`."""
        from tracejury.score import Named, scores_of

        self.scores += scores_of(said, Named(name, **more))


class Session:
    """The runs of this session: one for each experiment, shared by all workers. No test fails without the server."""

    def __init__(self, *, spool: Path | bool) -> None:
        self.key = os.environ.get(_SESSION) or uuid.uuid4().hex
        self.spool = spool
        self.lost = 0  # items that could not be delivered
        self.spooled = 0  # of these, the ones in the spool
        self.why = ""
        self.client: Client | None = None
        self.reporter: Reporter | None = None
        self.runs: dict[tuple[str, str], Start] = {}
        self._datasets: dict[str, Dataset] = {}

    def dataset(self, options: Mapping[str, Any]) -> Dataset:
        """Return the dataset that a mark names, or holds as an object or a text."""
        from tracejury.dataset import Dataset

        (form,) = (each for each in _DATASETS if each in options)
        value = options[form]
        if isinstance(value, Dataset):
            return value
        key = repr((form, value))
        if key not in self._datasets:
            readers = {"json": Dataset.from_json, "jsonl": Dataset.from_jsonl, "csv": Dataset.from_csv}
            if form in readers:
                self._datasets[key] = readers[form](value)
            else:
                self._datasets[key] = Dataset.load(*((value,) if isinstance(value, (str, Path)) else value))
        return self._datasets[key]

    def begin(self, options: Mapping[str, Any]) -> str | None:
        """Begin the run of an experiment in this session; None without a server, or until it is reachable."""
        from tracejury.client import Client, Unreachable
        from tracejury.reporter import Reporter, Start

        where = _where(options)
        if where in self.runs:
            return self.runs[where].run_id
        self.client = self.client or Client.from_environment()
        if self.client is None:
            return None
        dataset = self.dataset(options)
        body = {"experimentName": where[1], "runKey": f"pytest {self.key}", "trials": int(options.get("repeats", 1))}
        body |= {"metadata": dict(options.get("metadata", {}))}
        if dataset.version is not None:
            body |= {"datasetName": dataset.name, "datasetVersion": dataset.version}
        start = Start(where[0], body)
        try:
            start.begin(self.client)
        except Unreachable as error:
            self.why = str(error)
        self.runs[where] = start
        self.reporter = self.reporter or Reporter(self.client, spool=self.spool)
        return start.run_id

    def report(self, options: Mapping[str, Any], item: ItemResult) -> None:
        """Report an item of a run."""
        from tracejury.reported import document_of

        where = _where(options)
        if self.reporter is not None and where in self.runs:
            self.reporter.report(self.runs[where], document_of(item, self.dataset(options)))

    def close(self, status: str | None) -> None:
        """Deliver the remaining items; with a status, end the runs."""
        from tracejury.client import Client, Refused, Unreachable
        from tracejury.reporter import Reporter
        from tracejury.tracing import flush

        if self.reporter is not None:
            flush()
            self.reporter.close()
            self.lost += self.reporter.lost_items
            self.spooled += self.reporter.spooled_items
        client = self.client or Client.from_environment()
        if status is None or client is None:
            return
        ending = self.reporter or Reporter(client, spool=self.spool)  # for runs of workers
        ending.close()
        reason = f"{self.lost} items could not be delivered" if self.lost else None
        try:
            for run in self.runs.values():
                ending.end(run, status, reason=reason, is_whole=not self.spooled)
        except (Unreachable, Refused) as error:
            self.why = str(error)

    def output(self) -> dict[str, Any]:
        """Return the runs of a worker, for the process that began it."""
        runs = [(run.project, json.dumps(run.body), run.run_id) for run in self.runs.values()]
        return {"tracejury_runs": runs, "tracejury_lost": (self.lost, self.spooled)}

    def merge(self, output: Mapping[str, Any]) -> None:
        """Add the runs of a worker."""
        from tracejury.reporter import Start

        for project, text, run_id in output.get("tracejury_runs", ()):
            body = json.loads(text)
            run = self.runs.setdefault((project, body["experimentName"]), Start(project, body))
            run.run_id = run.run_id or run_id
        lost, spooled = output.get("tracejury_lost", (0, 0))
        self.lost += lost
        self.spooled += spooled


def _where(options: Mapping[str, Any]) -> tuple[str, str]:
    from tracejury.client import project_of

    return project_of(options.get("project")), str(options.get("experiment", "pytest"))


_sessions: Final = pytest.StashKey[Session]()
_results: Final = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options about items that cannot be delivered."""
    parser.addini("tracejury_spool", "A folder for items that could not be delivered; `no` is none.", default="")
    parser.addini("tracejury_fail_on_lost", "Fail if items are only in the spool, too.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "tracejury(dataset | json | jsonl | csv, repeats=1, experiment, project, metadata): run over a dataset",
    )
    spool = config.getini("tracejury_spool")
    config.stash[_sessions] = Session(spool=config.rootpath / spool if spool not in {"", "no"} else not spool)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each example and repeat."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is None:
        return
    unknown = set(mark.kwargs) - _OPTIONS
    if mark.args or unknown or sum(each in mark.kwargs for each in _DATASETS) != 1:
        more = ", ".join(sorted(_OPTIONS.difference(_DATASETS)))
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: tracejury({' | '.join(_DATASETS)}=…, {more})")
    from tracejury.experiment import keys_of

    keys = keys_of(metafunc.config.stash[_sessions].dataset(mark.kwargs))
    repeats = int(mark.kwargs.get("repeats", 1))
    cases = [(key, example, trial) for key, example in keys.items() for trial in range(1, repeats + 1)]
    names = [_shown(example, key) for key, example, _ in cases]
    ids = [name if repeats == 1 else f"{name}-{trial}" for name, (_, _, trial) in zip(names, cases, strict=True)]
    metafunc.fixturenames.append("_tracejury_case")
    metafunc.parametrize("_tracejury_case", cases, ids=ids, indirect=True)


def _shown(example: Example, key: str) -> str:
    if example.id:
        return key
    text = str(next(iter(example.inputs.values()), key))
    return re.sub(r"[^\w .,?!'+*=-]+", "_", " ".join(text.split())[:_SHOWN_CHARACTERS]).strip() or key


@pytest.fixture
def _tracejury_case(request: pytest.FixtureRequest) -> Iterator[tuple[str, Example, int, Recording]]:
    """Provide the example of this test and its recording, which is reported after the test."""
    from tracejury.results import ItemResult
    from tracejury.tracing import item_span

    key, example, trial = request.param
    mark = request.node.get_closest_marker(_MARK)
    session, recording = request.config.stash[_sessions], Recording()
    run_id = session.begin(mark.kwargs)
    name = str(mark.kwargs.get("experiment", "pytest"))
    with item_span(name, key=key, trial=trial, run_id=run_id) as (trace_id, span_id):
        yield key, example, trial, recording
    error = request.node.stash.get(_results, None)
    item = ItemResult(
        example=example,
        key=key,
        trial=trial,
        outputs=recording.told(),
        scores=recording.scores,
        error=error,
        error_kind=None if error is None else "test",
        trace_id=trace_id,
        span_id=span_id,
    )
    session.report(mark.kwargs, item)


@pytest.fixture
def example(_tracejury_case: Any) -> Any:
    """Provide the example of a marked test."""
    return _tracejury_case[1]


@pytest.fixture
def record(_tracejury_case: Any) -> Recording:
    """Return the recording of a marked test."""
    recording: Recording = _tracejury_case[3]
    return recording


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record a test's exception, but no failed assertion if a score failed: that score is the verdict already."""
    try:
        return (yield)
    except (AssertionError, pytest.fail.Exception) as error:
        if not _has_scores(item):
            item.stash[_results] = f"{type(error).__name__}: {error}"
        raise
    except Exception as error:  # raised again: only noted
        item.stash[_results] = f"{type(error).__name__}: {error}"
        raise


def _has_scores(item: pytest.Item) -> bool:
    case = getattr(item, "funcargs", {}).get("_tracejury_case")
    return case is not None and any(score.success is False for score in case[3].scores)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:  # noqa: ARG001 - as the hook is called
    """Take over the runs that a worker reported to."""
    node.config.stash[_sessions].merge(getattr(node, "workeroutput", {}))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Deliver the items, and end the runs: once, in the process that began the workers."""
    is_worker = hasattr(session.config, "workerinput")
    finished = int(exitstatus) in {int(pytest.ExitCode.OK), int(pytest.ExitCode.TESTS_FAILED)}
    sessions = session.config.stash.get(_sessions, None)
    if sessions is None:
        return
    if sessions.runs:
        sessions.close(None if is_worker else "SUCCESS" if finished else "FAILED")
    if is_worker:
        session.config.workeroutput |= sessions.output()  # type: ignore[attr-defined] # of xdist
        return
    least = 0 if session.config.getini("tracejury_fail_on_lost") else sessions.spooled
    if sessions.lost > least and finished:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the runs, and the items that could not be delivered."""
    sessions = config.stash.get(_sessions, None)
    if sessions is None:
        return
    for (project, experiment), run in sessions.runs.items():
        terminalreporter.write_line(f"tracejury: {experiment} of {project}: run {run.run_id or '(not begun)'}")
    if sessions.lost:
        kept = f"; {sessions.spooled} of them are in the spool, which the next run sends" if sessions.spooled else ""
        reason = f": {sessions.why}" if sessions.why else ""
        terminalreporter.write_line(f"tracejury: {sessions.lost} items could not be delivered{reason}{kept}", red=True)
