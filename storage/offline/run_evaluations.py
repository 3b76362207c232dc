"""Evaluations of runs by evaluators on the server: pending items, and progress."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from storage import sql
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.ingest.writer import Writer
from storage.offline.runs import Run
from storage.sql import dict_rows
from storage.versioned import write_rows

State: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvaluation:
    """A new evaluation of a run. `configuration` is its rule as JSON."""

    evaluator: str
    name: str
    configuration: str
    connection: str | None
    created_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluation of a run by one evaluator."""

    tenant: str
    run_id: str
    project: str
    run_state: str
    evaluation_id: str
    evaluator: str
    name: str
    configuration: str
    connection: str | None
    state: State
    error: str | None
    created_by: str | None
    created_at_ns: int
    ended_at_ns: int | None
    continues_at_us: int | None  # end of a pause that the judge's API asked for
    scored: int = 0  # items so far; this and the next two are only filled by `of_run`
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """An item that the evaluation has yet to score. The maps are JSON."""

    item_number: int
    inputs: str
    expected_outputs: str
    actual_outputs: str
    metadata: str
    has_failed: bool  # True if the task failed, so that there is nothing to judge
    trace_id: str | None = None  # trace that supplies values that are missing in the maps
    span_id: str | None = None


class RunEvaluations:
    """The evaluations of runs. Thread-safe."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._open = RowCache(database, sql.query("run_evaluations"))
        self._writer = writer

    def add(self, run: Run, new: NewEvaluation, *, now_us: int) -> Evaluation:
        """Store an evaluation of a run; it waits until the run has ended.

        Raises:
            Overloaded: nothing was stored.
        """
        evaluation_id = uuid.uuid4().hex
        values: dict[str, object] = {
            "tenant": run.tenant,
            "run_id": run.run_id,
            "evaluation_id": evaluation_id,
            "evaluator": new.evaluator,
            "name": new.name,
            "configuration": new.configuration,
            "connection": new.connection,
            "created_by": new.created_by,
            "now_us": now_us,
        }
        self._writer.store(lambda cursor: cursor.execute(sql.query("insert_run_evaluation"), values), 1)
        return next(each for each in self.of_run(run.run_id) if each.evaluation_id == evaluation_id)

    def of_run(self, run_id: str) -> list[Evaluation]:
        """Return the evaluations of a run, in the order of the requests."""
        return self._found(run_id=run_id)

    def open(self) -> list[Evaluation]:
        """Return the evaluations that can proceed: the run has ended, and the evaluation has not."""
        return [Evaluation(**row) for row in self._open.named({"run_id": None, "only_open": True})]

    def set_state(self, evaluation_id: str, state: State, *, error: str | None = None, now_us: int) -> bool:
        """Set the state of an evaluation; return False if it is over already.

        Raises:
            Overloaded: nothing was stored.
        """
        values = {"evaluation_id": evaluation_id, "state": state, "error": error, "now_us": now_us}
        return bool(write_rows(self._writer, sql.query("update_run_evaluation"), values))

    def pause(self, evaluation_id: str, *, until_us: int, reason: str) -> None:
        """Note when an evaluation that is not over continues, and why it waits.

        Raises:
            Overloaded: nothing was stored.
        """
        values = {"evaluation_id": evaluation_id, "until_us": until_us, "reason": reason}
        write_rows(self._writer, sql.query("pause_run_evaluation"), values)

    def unscored(self, evaluation: Evaluation, *, after: int, most: int) -> Sequence[Unscored]:
        """Return items that the evaluation has not scored yet, after an item number."""
        parameters = {
            "run_id": evaluation.run_id,
            "evaluation_id": evaluation.evaluation_id,
            "after": after,
            "items": most,
        }
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("unscored_run_items"), parameters)
            return [Unscored(**row) for row in dict_rows(cursor)]

    def count_unscored(self, evaluation: Evaluation) -> int:
        """Count the items that the evaluation has not scored yet."""
        params = {"run_id": evaluation.run_id, "evaluation_id": evaluation.evaluation_id}
        with self._database.cursor() as cursor:
            ((count,),) = cursor.execute(sql.query("count_unscored_run_items"), params).fetchall()
        return int(count)

    def problem_of(self, evaluation: Evaluation) -> str | None:
        """Return why a finished evaluation counts as failed, because no item got a score; None if one did."""
        params = {"run_id": evaluation.run_id, "evaluation_id": evaluation.evaluation_id}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("verdicts_of_run_evaluation"), params)
            (counts,) = dict_rows(cursor)
        if not counts["items"]:
            return "the run has no items"
        if counts["scored"]:
            return None
        first = f"the first: {counts['error_kind']}: {counts['reason']}"
        beside = f"{counts['failed']} no verdict, {counts['skipped']} skipped"
        return f"none of {counts['items']} items was judged: {beside}; {first}"

    def _found(self, *, run_id: str | None = None, only_open: bool = False) -> list[Evaluation]:
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("run_evaluations"), {"run_id": run_id, "only_open": only_open})
            return [Evaluation(**row) for row in dict_rows(cursor)]
