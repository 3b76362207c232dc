"""Items of runs and their scores: each item is stored once for its key and trial, however often it is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import Conflict, NotFound
from storage.ingest.writer import Writer
from storage.judging.job_results import EvaluatorOutcome
from storage.offline.runs import Run
from storage.sql import dict_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScore(EvaluatorOutcome):
    """Result of an evaluator on an item."""

    label: str | None = None
    direction: str | None = None
    evaluator_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunItem:
    """Result of an item in one trial. The maps are JSON; `digest` is equal for items with equal content."""

    item_key: str
    is_keyed: bool
    dataset_item_id: str | None
    trial: int
    digest: str
    inputs: str
    expected_outputs: str
    actual_outputs: str
    metadata: str
    error: str | None = None
    error_kind: str | None = None
    stop_reason: str | None = None
    cached: bool | None = None
    retries: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    tokens_reasoning: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    trace_id: str | None = None
    span_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Result of a report: items that were stored, already present, or already present with other content."""

    stored: int
    already_present: int
    conflicting: Sequence[str]  # keys of items already present with other content


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCriteria:
    """Filter and order of a run's items. `evaluator` selects items that did not pass it."""

    outcome: str | None = None
    text: str | None = None
    evaluator: str | None = None
    sort: Literal["order", "score", "cost", "latency"] = "order"


@dataclass(frozen=True, slots=True)
class OutlinedItem:
    """Number, key, trial and outcome of a run's item."""

    number: int
    key: str
    trial: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedTrial:
    """Results of one evaluator in one trial of a run."""

    name: str
    trial: int
    passed: int
    not_passed: int
    failed: int
    skipped: int
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluator:
    """Configuration with which an evaluator judged a run's items; `is_one` is True if all items had the same."""

    name: str
    direction: str | None
    threshold: float | None
    fingerprint: str | None
    is_one: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStamp:
    """Counters that change with a run's items or scores."""

    items: int  # each trial of an item counts
    scores: int
    last_score: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumns:
    """The items of a run and their scores as columns, and its evaluators by name."""

    items: pa.Table  # the trials of a case together
    scores: pa.Table
    evaluators: Sequence[StoredEvaluator]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedCriteria:
    """Filters of undecided items; None matches all. A tenant matches its items and shared ones."""

    tenant: str | None
    project: str | None
    experiment_id: str | None
    run_id: str | None
    outcome: str


_LATEST_RUNS: Final = 100
"""Number of the latest runs that are searched for items without a human decision. A guess: older runs are outdated."""


class RunItems:
    """The items of the runs of a store. Thread-safe."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def add(
        self, run: Run, items: Sequence[NewRunItem], scores: Sequence[Sequence[NewScore]], *, now_us: int
    ) -> Reported:
        """Store items, each with its scores, in one transaction; items that the run already has are not changed.

        Raises:
            Conflict: the run has ended, and some of the items are new.
            NotFound: the run was deleted.
            Overloaded: the database cannot be written now.
        """
        adding = _Adding(run=run, items=items, scores=scores, now_us=now_us)
        self._writer.store(adding.run_in, len(items))
        assert adding.reported is not None  # noqa: S101 - it ran
        return adding.reported

    def add_scores(self, run: Run, evaluation_id: str, scores: Sequence[tuple[int, NewScore]], *, now_us: int) -> None:
        """Store scores of an evaluation, by item number; they replace earlier ones of the same names.

        Raises:
            Overloaded: the database cannot be written now.
        """
        rows = _score_table([(number, score) for number, score in scores])
        values = {"run_id": run.run_id, "evaluation_id": evaluation_id}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.register("new_run_scores", rows)
            cursor.execute(sql.query("supersede_run_scores"), values)
            ((_, last_score),) = cursor.execute(sql.query("last_run_numbers")).fetchall()
            more = {"tenant": run.tenant, "last_score": last_score, "now_us": now_us}
            cursor.execute(sql.query("insert_run_scores"), values | more)

        self._writer.store(write, len(scores))

    def page(self, run_id: str, *, outcome: str | None = None, skip: int, most: int) -> list[dict[str, Any]]:
        """Return items of a run in the order of arrival, each as a row with its scores under `scores`."""
        parameters: dict[str, object] = {"run_id": run_id, "items": most, "skip": skip}
        with self._database.snapshot() as cursor:
            if outcome is None:
                cursor.execute(sql.query("run_items"), parameters)
            else:
                cursor.execute(sql.query("run_items_by_outcome"), parameters | {"outcome": outcome})
            return _with_scores(cursor, run_id, dict_rows(cursor))

    def chosen(self, run_id: str, criteria: ItemCriteria, *, skip: int, most: int) -> tuple[list[int], int]:
        """Return the numbers of the matching items of a run, in the requested order, and how many there are in all."""
        parameters: dict[str, object] = {"run_id": run_id, "items": most, "skip": skip, **asdict(criteria)}
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("chosen_run_items"), parameters).fetchall()
        if skip and not rows:  # the rows tell the total
            return [], self.chosen(run_id, criteria, skip=0, most=1)[1]
        return [number for number, _ in rows], max((total for _, total in rows), default=0)

    def by_number(self, run_id: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the items of a run with these numbers, in their order; missing ones are left out."""
        with self._database.snapshot() as cursor:
            cursor.execute(sql.query("run_items_by_number"), _numbered(run_id, numbers))
            items = {item["item_number"]: item for item in _with_scores(cursor, run_id, dict_rows(cursor))}
        return [items[number] for number in numbers if number in items]

    def undecided(self, criteria: UndecidedCriteria, *, skip: int, most: int) -> list[dict[str, Any]]:
        """Return items without a decision from the latest runs, with scores and the dataset of their run."""
        parameters = asdict(criteria) | {"runs": _LATEST_RUNS, "items": most, "skip": skip}
        statement = sql.query("undecided_run_items").replace("$outcomes", sql.select_of("outcome_of_run_item"))
        with self._database.snapshot() as cursor:
            cursor.execute(statement, parameters)
            rows = dict_rows(cursor)
            items: dict[int, dict[str, Any]] = {}
            for run_id in dict.fromkeys(row["run_id"] for row in rows):
                numbers = [row["item_number"] for row in rows if row["run_id"] == run_id]
                cursor.execute(sql.query("run_items_by_number"), _numbered(run_id, numbers))
                items |= {item["item_number"]: item for item in _with_scores(cursor, run_id, dict_rows(cursor))}
        return [items[row["item_number"]] | row for row in rows]

    def outline(self, run_id: str) -> list[OutlinedItem]:
        """Return number, key, trial and outcome of all items of a run, the trials of a case together."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("outline_of_run"), {"run_id": run_id}).fetchall()
        return [OutlinedItem(*row) for row in rows]

    def stamp(self, run_id: str) -> RunStamp:
        """Return the stamp of a run's items and scores."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("stamp_of_run"), {"run_id": run_id})
            return RunStamp(**dict_rows(cursor)[0])

    def columns(self, run_id: str) -> RunColumns:
        """Return the columns of a run that a comparison reads, in one snapshot."""
        parameters = {"run_id": run_id}
        with self._database.snapshot() as cursor:
            items = arrow_table(cursor, sql.query("items_of_run_in_columns"), parameters)
            scores = arrow_table(cursor, sql.query("scores_of_run_in_columns"), parameters)
            cursor.execute(sql.query("evaluators_of_run"), parameters)
            evaluators = [StoredEvaluator(**row) for row in dict_rows(cursor)]
        return RunColumns(items=items, scores=scores, evaluators=evaluators)

    def texts(self, run_id: str) -> list[tuple[str, str]]:
        """Return the input and the metadata of each case, in the order of `columns`."""
        with self._database.cursor() as cursor:
            return cursor.execute(sql.query("texts_of_run"), {"run_id": run_id}).fetchall()

    def evaluators_by_trial(self, run_id: str) -> list[EvaluatedTrial]:
        """Return the results of each evaluator in each trial of a run."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("evaluators_of_trials"), {"run_id": run_id})
            return [EvaluatedTrial(**row) for row in dict_rows(cursor)]

    def find(self, tenant: str | None, number: int) -> dict[str, Any] | None:
        """Return an item of a tenant or a shared one (None: of any tenant) by number, with the dataset of its run."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("run_item_by_number"), {"tenant": tenant, "item_number": number})
            return next(iter(dict_rows(cursor)), None)

    def keys(self, run_id: str, *, after: int, most: int) -> list[tuple[int, str, int]]:
        """Return numbers, keys and trials of the items that a run has, after a number."""
        parameters = {"run_id": run_id, "after": after, "items": most}
        with self._database.cursor() as cursor:
            return cursor.execute(sql.query("keys_of_run"), parameters).fetchall()


@dataclass(slots=True, kw_only=True)
class _Adding:
    """Addition of items within the writer's transaction, so that no other thread can add the same items meanwhile."""

    run: Run
    items: Sequence[NewRunItem]
    scores: Sequence[Sequence[NewScore]]
    now_us: int
    reported: Reported | None = None

    def run_in(self, cursor: duckdb.DuckDBPyConnection) -> None:
        of_it: dict[str, object] = {"run_id": self.run.run_id}
        state = cursor.execute(sql.query("state_of_run"), of_it).fetchone()
        if state is None:
            raise NotFound(f"there is no run {self.run.run_id} any more")
        places, conflicting = self._places(cursor, of_it)
        if places and state[0] != "RUNNING":
            raise Conflict("the run has ended and accepts no more items")
        self.reported = Reported(
            stored=len(places), already_present=len(self.items) - len(places), conflicting=conflicting
        )
        if not places:
            return
        stamp = of_it | {"tenant": self.run.tenant, "now_us": self.now_us}
        ((last_item, last_score),) = cursor.execute(sql.query("last_run_numbers")).fetchall()
        cursor.register("new_run_items", _item_table([self.items[place] for place in places]))
        cursor.execute(sql.query("insert_run_items"), stamp | {"last_item": last_item})
        rows = [
            (last_item + number, score) for number, place in enumerate(places, start=1) for score in self.scores[place]
        ]
        if rows:
            cursor.register("new_run_scores", _score_table(rows))
            more = {"last_score": last_score, "evaluation_id": None}
            cursor.execute(sql.query("insert_run_scores"), stamp | more)
        cursor.execute(sql.query("touch_run"), of_it | {"now_us": self.now_us})

    def _places(self, cursor: duckdb.DuckDBPyConnection, of_it: dict[str, object]) -> tuple[list[int], list[str]]:
        """Return the indices of new items, and the keys of items that are stored, or sent twice, with other content."""
        cursor.register("new_run_items", _item_table(self.items))
        known = cursor.execute(sql.query("known_run_items"), of_it).fetchall()
        gone = {place for place, _, _ in known}
        conflicting = [key for _, key, same in known if not same]
        first: dict[tuple[str, int], int] = {}
        for place, item in enumerate(self.items):
            before = first.setdefault((item.item_key, item.trial), place)
            if before != place and place not in gone and self.items[before].digest != item.digest:
                conflicting.append(item.item_key)
        return [place for place in first.values() if place not in gone], conflicting


def _with_scores(
    cursor: duckdb.DuckDBPyConnection, run_id: str, items: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return items with their current scores and their outcome."""
    cursor.execute(sql.query("scores_of_run_items"), _numbered(run_id, [item["item_number"] for item in items]))
    scores: dict[int, list[dict[str, Any]]] = {}
    for row in dict_rows(cursor):
        scores.setdefault(row["item_number"], []).append(row)
    scored_items = [item | {"scores": scores.get(item["item_number"], [])} for item in items]
    return [item | {"outcome": _outcome(item)} for item in scored_items]


def _numbered(run_id: str, numbers: Sequence[int]) -> dict[str, object]:
    bounds = {"first": min(numbers, default=0), "last": max(numbers, default=0)}
    return {"run_id": run_id, "numbers": list(numbers), **bounds}


def _outcome(item: Mapping[str, Any]) -> str:
    """Return the outcome of an item, as in the view `outcome_of_run_item`."""
    if item["error"] is not None or item["error_kind"] is not None:
        return "error"
    outcomes = {(score["outcome"], score["passed"]) for score in item["scores"]}
    if any(outcome == "failed" for outcome, _ in outcomes):
        return "not_evaluated"
    if ("scored", False) in outcomes:
        return "not_passed"
    return "passed" if ("scored", True) in outcomes else "unjudged"


_TYPES: Final = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}


def _schema(shape: type[NewRunItem] | type[NewScore], *more: tuple[str, pa.DataType]) -> pa.Schema:
    columns = [
        (field.name, _TYPES[getattr(field.type, "__name__", str(field.type)).split(" ")[0]]) for field in fields(shape)
    ]
    return pa.schema([*columns, *more])


_ITEMS: Final = _schema(NewRunItem, ("place", pa.int64()))
_SCORES: Final = _schema(NewScore, ("item_number", pa.int64()), ("place", pa.int64()))


def _item_table(items: Sequence[NewRunItem]) -> pa.Table:
    rows = [{field.name: getattr(item, field.name) for field in fields(NewRunItem)} for item in items]
    return pa.Table.from_pylist([row | {"place": place} for place, row in enumerate(rows)], schema=_ITEMS)


def _score_table(scores: Sequence[tuple[int, NewScore]]) -> pa.Table:
    rows = [
        {field.name: getattr(score, field.name) for field in fields(NewScore)} | {"item_number": number, "place": place}
        for place, (number, score) in enumerate(scores)
    ]
    return pa.Table.from_pylist(rows, schema=_SCORES)
