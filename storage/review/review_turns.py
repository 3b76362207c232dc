"""Turns in review queues: leases, votes and skipped entries, each decided in one transaction.

The writer runs one transaction at a time, so that no other lease of an entry comes between its check and its lease.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import duckdb

from storage import sql
from storage.delays import StoredDelays
from storage.engine.database import Database
from storage.errors import Conflict, NotFound
from storage.ingest.writer import Writer
from storage.review.annotations import NewAnnotation, put_annotations
from storage.review.review_queues import ReviewQueue

TurnState: TypeAlias = Literal["leased", "skipped", "voted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTurn:
    """The reviewer, the time, and the length of a lease."""

    author: str
    now_us: int
    lease_us: int


class ReviewTurns:
    """Turns of reviewers in queues. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer, delays: StoredDelays) -> None:
        self._database = database
        self._writer = writer
        self._delays = delays

    def next(self, queue: ReviewQueue, turn: ReviewTurn) -> str | None:
        """Lease an entry to a reviewer, and return its id, or None if there is none.

        It is the entry that the reviewer has leased already, else one that needs more reviewers.

        Raises:
            Overloaded: the database cannot be written now.
        """
        return self._done(lambda cursor: _lease_next(cursor, queue, turn))

    def vote(
        self, queue: ReviewQueue, entry_id: str, annotation: NewAnnotation, turn: ReviewTurn, *, goes_on: bool
    ) -> str | None:
        """Store a vote; with `goes_on`, lease the next entry in the same transaction and return its id.

        A vote counts even if the reviewer's lease has expired.

        Raises:
            Conflict: the entry was never leased to the reviewer, and enough others voted on it or have leased it.
            NotFound: the entry is gone.
            Overloaded: the database cannot be written now.

        """

        def write(cursor: duckdb.DuckDBPyConnection) -> str | None:
            _check_room(cursor, queue, entry_id, turn)
            put_annotations(cursor, [annotation], now_us=turn.now_us)
            _put(cursor, queue, entry_id, turn, "voted")
            return _lease_next(cursor, queue, turn) if goes_on else None

        return self._done(write)

    def skip(self, queue: ReviewQueue, entry_id: str, turn: ReviewTurn, *, goes_on: bool) -> str | None:
        """Never lease the entry to this reviewer again; with `goes_on`, lease another one and return its id.

        Raises:
            Conflict: the reviewer has voted on the entry.
            NotFound: the entry is gone.
            Overloaded: the database cannot be written now.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> str | None:
            if _standing(cursor, queue, entry_id, turn).has_voted:
                raise Conflict("you have voted on this entry: take the vote back first")
            _put(cursor, queue, entry_id, turn, "skipped")
            return _lease_next(cursor, queue, turn) if goes_on else None

        return self._done(write)

    def last(self, queue: ReviewQueue, author: str) -> str | None:
        """Return the entry that a reviewer voted on or skipped last."""
        with self._database.cursor() as cursor:
            parameters = {"queue_id": queue.queue_id, "author": author}
            row = cursor.execute(sql.query("last_review_turn"), parameters).fetchone()
        return None if row is None else str(row[0])

    def undo(self, queue: ReviewQueue, entry_id: str, withdrawn: Sequence[NewAnnotation], turn: ReviewTurn) -> None:
        """Undo a vote or a skip, and lease the entry to the reviewer again if it needs more reviewers.

        The reviewer's other lease is released.

        Raises:
            NotFound: the entry is gone.
            Overloaded: the database cannot be written now.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            others = _standing(cursor, queue, entry_id, turn).others
            put_annotations(cursor, withdrawn, now_us=turn.now_us)
            of_author = {"queue_id": queue.queue_id, "author": turn.author}
            cursor.execute(sql.query("delete_review_leases"), of_author)
            cursor.execute(sql.query("delete_review_turn"), of_author | {"entry_id": entry_id})
            if others < queue.reviewers:
                _put(cursor, queue, entry_id, turn, "leased")

        self._done(write)

    def _done(self, write: Callable[[duckdb.DuckDBPyConnection], str | None]) -> str | None:
        entry_ids: list[str | None] = []
        self._delays.now_ns()  # shifts the ends of leases if the clock was set
        self._writer.store(lambda cursor: entry_ids.append(write(cursor)), 1)
        return entry_ids[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """A reviewer's last turn with an entry, and how many other reviewers have voted on it or leased it."""

    state: TurnState | None
    has_voted: bool
    others: int


def _standing(cursor: duckdb.DuckDBPyConnection, queue: ReviewQueue, entry_id: str, turn: ReviewTurn) -> _Standing:
    entry: dict[str, object] = {"queue_id": queue.queue_id, "entry_id": entry_id, "author": turn.author}
    parameters = entry | {"now_us": turn.now_us, "lease_us": turn.lease_us}
    row = cursor.execute(sql.query("review_turn_of"), parameters).fetchone()
    if row is None:
        raise NotFound("this queue has no such entry; its target may have expired")
    state, has_voted, others = row
    return _Standing(state=state, has_voted=has_voted, others=others)


def _check_room(cursor: duckdb.DuckDBPyConnection, queue: ReviewQueue, entry_id: str, turn: ReviewTurn) -> None:
    standing = _standing(cursor, queue, entry_id, turn)
    if standing.state is None and not standing.has_voted and standing.others >= queue.reviewers:
        raise Conflict("enough people have voted on this entry or are reviewing it: request the next one")


def _lease_next(cursor: duckdb.DuckDBPyConnection, queue: ReviewQueue, turn: ReviewTurn) -> str | None:
    parameters = {
        "queue_id": queue.queue_id,
        "author": turn.author,
        "now_us": turn.now_us,
        "lease_us": turn.lease_us,
        "reviewers": queue.reviewers,
        "blind": queue.blind,
    }
    row = cursor.execute(sql.query("next_review_entry"), parameters).fetchone()
    if row is None:
        return None
    cursor.execute(sql.query("delete_review_leases"), {"queue_id": queue.queue_id, "author": turn.author})
    _put(cursor, queue, row[0], turn, "leased")
    return str(row[0])


def _put(
    cursor: duckdb.DuckDBPyConnection, queue: ReviewQueue, entry_id: str, turn: ReviewTurn, state: TurnState
) -> None:
    of_it = {"queue_id": queue.queue_id, "entry_id": entry_id, "author": turn.author}
    cursor.execute(sql.query("delete_review_turn"), of_it)
    until_us = turn.now_us + turn.lease_us if state == "leased" else None
    cursor.execute(sql.query("put_review_turn"), of_it | {"state": state, "until_us": until_us})
