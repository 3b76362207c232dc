"""Requested deletions: their criteria, state and progress in the database."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final
from uuid import uuid4

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import Overloaded
from storage.ingest.writer import Writer
from storage.limit import Limit

DELETING: Final = "deleting"
ERASING: Final = "erasing"
DONE: Final = "done"
"""The states of a deletion, in order: its rows are being deleted; their bytes are to be erased from the disk; done."""

BEFORE_ALL: Final = -1  # the first commit has the number 0

_MOST_OPEN: Final = 100
"""Maximum number of open deletions of one tenant; further requests are refused. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionCriteria:
    """Criteria of the traces to delete. None matches all; not all may be None."""

    tenant: str = ""
    trace_id: str | None = None
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    before_ns: int | None = None

    @property
    def filters(self) -> list[str]:
        """Return the names of the criteria in use, as in the API."""
        return [name for field, name in _FILTERS.items() if getattr(self, field) is not None]


_FILTERS: Final = {
    "trace_id": "traceId",
    "project": "project",
    "session_id": "sessionId",
    "user_id": "userId",
    "before_ns": "before",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A deletion and its progress. When its rows are deleted, the values of its criteria are deleted, too."""

    deletion_id: str
    criteria: DeletionCriteria
    filters: Sequence[str]
    state: str
    after_batch: int  # commits up to this one were searched
    until_batch: int  # the last commit at the time of the request
    began_batch: int  # the search began after this commit; earlier commits are searched last
    wrapped: bool  # True while the commits up to `began_batch` are searched
    traces: int  # number of deleted traces
    spans: int
    created_at_ns: int
    created_by: str | None
    rows_gone_at_ns: int | None
    finished_at_ns: int | None

    @property
    def share(self) -> float:
        """Return the share of the data that was searched, from 0 to 1."""
        if self.state != DELETING:
            return 1.0
        looked_at = self.after_batch - self.began_batch
        if self.wrapped:
            looked_at = self.until_batch - self.began_batch + self.after_batch + 1
        return looked_at / max(1, self.until_batch + 1)

    @property
    def last_batch(self) -> int:
        """Return the commit at which the search continues with the first commit, or ends if `wrapped`."""
        return self.began_batch if self.wrapped else self.until_batch


class Deletions:
    """Requested deletions. Thread-safe."""

    def __init__(self, database: Database, writer: Writer, *, settle: Callable[[], None]) -> None:
        """`settle` waits until all data that was acknowledged before the call is committed."""
        self._database = database
        self._writer = writer
        self._settle = settle
        self._asking = threading.Lock()
        self._changed = threading.Condition()
        self.position = BEFORE_ALL
        """The commit after which deletions search now. A new deletion begins there, so that all of them share the
        rewriting of row groups."""

    def request(self, criteria: DeletionCriteria, *, now_us: int, created_by: str | None = None) -> Deletion:
        """Request the deletion of data stored before now; a repeated request joins the deletion under way.

        Raises:
            Overloaded: too many deletions are under way, or the database cannot be written now.
        """
        self._settle()
        with self._asking:
            open_ones = self.open()
            joined = next((each for each in open_ones if each.state == DELETING and each.criteria == criteria), None)
            if joined is not None:
                return joined
            if sum(each.criteria.tenant == criteria.tenant for each in open_ones) >= _MOST_OPEN:
                whose = f" of the tenant {criteria.tenant!r}" if criteria.tenant else ""
                limit = Limit(value=_MOST_OPEN, unit="deletions", remedy="wait until one is done")
                raise Overloaded(f"no more can be under way{whose} than {limit}", retry_after_s=60)
            self._database.checkpoints.merge_row_groups(allowed=False)
            deletion_id = str(uuid4())
            row = {
                "deletion_id": deletion_id,
                "filters": criteria.filters,
                "began_batch": BEFORE_ALL if criteria.trace_id is not None else self.position,
                "now_us": now_us,
                "created_by": created_by,
            }
            statement = sql.query("insert_deletion")
            self._writer.store(lambda cursor: cursor.execute(statement, asdict(criteria) | row), 1, frees=True)
        self.changed()
        deletion = self.find(deletion_id)
        assert deletion is not None  # noqa: S101 - it was stored just now
        return deletion

    def find(self, deletion_id: str, tenant: str | None = None) -> Deletion | None:
        """Return a deletion of a tenant, or of any tenant with None; None if it does not exist."""
        return next(iter(self._found(deletion_id=deletion_id, tenant=tenant)), None)

    def page(self, *, tenant: str | None, skip: int, most: int) -> list[Deletion]:
        """Return the deletions of a tenant, or of all, the latest first."""
        return self._found(tenant=tenant, skip=skip, most=most)

    def open(self) -> list[Deletion]:
        """Return the deletions that are not done, the latest first."""
        return self._found(only_open=True, most=None)

    def let_merge(self) -> None:
        """Allow merges of row groups, unless an open deletion needs to know where its rows were."""
        with self._asking:  # no deletion may be requested between the check and the change
            self._database.checkpoints.merge_row_groups(allowed=not self.open())

    def changed(self) -> None:
        """Notify waiters."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, deletion: Deletion, seconds: float) -> Deletion:
        """Return the deletion as it is when its rows are gone, or after `seconds`."""
        until_s = time.monotonic() + seconds
        with self._changed:
            while deletion.state == DELETING and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
                deletion = self.find(deletion.deletion_id) or deletion
        return deletion

    def _found(
        self,
        *,
        deletion_id: str | None = None,
        tenant: str | None = None,
        only_open: bool = False,
        skip: int = 0,
        most: int | None = 1,
    ) -> list[Deletion]:
        parameters = {
            "deletion_id": deletion_id,
            "tenant": tenant,
            "only_open": only_open,
            "skip": skip,
            "most": most,
        }
        names = [field.name for field in fields(DeletionCriteria)]
        with self._database.cursor() as cursor:
            rows = arrow_table(cursor, sql.query("deletions"), parameters).to_pylist()
        return [Deletion(criteria=DeletionCriteria(**{name: row.pop(name) for name in names}), **row) for row in rows]
