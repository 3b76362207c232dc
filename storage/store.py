"""The store: an open data directory. `append` makes spans and log records durable; `queries` and others read them."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING, Self

import duckdb

from storage import sql
from storage.aging import Aging, AgingOptions
from storage.alerting.alert_mutes import AlertMutes
from storage.alerting.alerts import Alerts
from storage.alerting.counted_scores import CountedScores
from storage.alerting.metric_monitors import MetricMonitors
from storage.alerting.monitors import Monitors
from storage.alerting.outbox import Outbox
from storage.alerting.quality import Quality
from storage.alerting.webhooks import Webhooks
from storage.delays import StoredDelays
from storage.engine.damage import LOST_RECORDS, Damage
from storage.engine.database import Database, DatabaseOptions
from storage.engine.lock import DirectoryLock
from storage.engine.permissions import keep_new_files_private, make_private
from storage.engine.read_database import ColdReader, ReadDatabase
from storage.engine.room import needing_room, release_reserve
from storage.errors import Busy, Damaged, Overloaded, ReadOnly, Unusable
from storage.ingest.batch import SpanBatch
from storage.ingest.shares import Shares, parts_of
from storage.ingest.spool import Position, Spool
from storage.ingest.state import Totals, read_state
from storage.ingest.trace_meanings import Changes, TraceMeanings
from storage.ingest.windows import TraceKey, Windows
from storage.ingest.writer import Writer, WriterOptions
from storage.judging.jobs import Jobs
from storage.judging.judgements import Judgements
from storage.judging.matching import Matching
from storage.judging.result_export import ResultsOut
from storage.judging.rule_record import RuleRecord
from storage.judging.rulebook import Rulebook
from storage.judging.spending import JudgeCallStore
from storage.lake.scope import LakeScope, lake_scope, moved_to_lake
from storage.limit import Limit
from storage.offline.datasets import Datasets
from storage.offline.run_evaluations import RunEvaluations
from storage.offline.run_items import RunItems
from storage.offline.run_looks import RunLooks
from storage.offline.runs import Runs
from storage.operation.access import Access
from storage.operation.connections import Connections
from storage.operation.gauges import Gauges
from storage.operation.saved_views import SavedViews
from storage.operation.status import StatusReader
from storage.query.agents import Agents
from storage.query.costs import CostQueries
from storage.query.exports import Exports
from storage.query.listing import Listing
from storage.query.outline import Outlines
from storage.query.overview import Overview
from storage.query.queries import Queries
from storage.query.search import Search
from storage.query.sessions import SessionQueries
from storage.review.annotations import Annotations
from storage.review.labels import Labels
from storage.review.review_feeding import ReviewFeeding
from storage.review.review_queues import ReviewQueues
from storage.review.review_turns import ReviewTurns
from storage.upkeep.backup import copy_database
from storage.upkeep.checking import check_database, descriptor_path
from storage.upkeep.deletions import Deletions
from storage.upkeep.erasure import Erasure
from storage.upkeep.kept_row_groups import make_rewriting
from storage.upkeep.leftovers import remove_leftovers
from storage.upkeep.moving import Moving
from storage.upkeep.retention import Retention
from storage.work import Report, StartStep, logged, no_report

if TYPE_CHECKING:
    from storage.lake.publishing import Lake
    from storage.lake.upkeep import LakeUpkeep

log = logging.getLogger(__name__)

_KEPT_FREE_BYTES = 16 << 20
"""Disk space that new spans must leave free, in addition to the size of the backlog. It is needed because only commits
free space of the spool: without it, the spool would take all space that is freed on a full disk. A guess: twice
DuckDB's shortest log of 4 MB, and a checkpoint."""

_CLOSED_S = 5.0
"""If the database cannot be opened again for this long, spans are refused. A guess."""

_COMMIT_WAIT_S, _COMMIT_POLL_INTERVAL_S = 60.0, 0.05
"""Timeout of `_wait_until_committed`, and its interval. Guesses: even under full load, a span is committed within
seconds."""

_SET_ASIDE = "set-aside"  # folder of rows that DuckDB rejects
_STOP_S = 1.0
"""How long a failed start waits for commits of spans that it recovered; the spool still has them. A guess."""

_RECOVERY_S = 30.0  # how long a start waits for commits of spooled spans before the listeners open

_FLUSH_S = 5.0
"""Timeout for storing the usage of the last judge calls. Calls whose usage is not stored count with their reserved
amount. A guess: a write task waits a second under full load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Settings of a store; sizes in bytes."""

    backlog_bytes: int = 48 << 20  # maximum size of spooled spans without a commit; beyond it, new ones are refused
    database: DatabaseOptions = field(default_factory=DatabaseOptions)
    writer: WriterOptions = field(default_factory=WriterOptions)
    aging: AgingOptions = field(default_factory=AgingOptions)
    may_only_read: bool = False  # opens read-only directories, too; then all writes are refused
    lake: str | None = None  # URI of the lake, from which rows that moved are read
    lake_endpoint: str | None = None  # URL of an object store whose provider has no default endpoint
    cold: ColdReader | None = None  # reader of the lake, made by `open`
    http: str = ""  # URL that answers during the opening; written into the lock file
    report: Report = no_report  # receives the steps of the opening, in its thread


class Store:
    """An open data directory. Made by `open`, which starts its threads; `close` stops them."""

    def __init__(
        self,
        lock: DirectoryLock,
        database: Database,
        spool: Spool,
        writer: Writer,
        followed: "_Followed",
        options: StoreOptions,
    ) -> None:
        self._lock, self._database, self._spool, self._writer = lock, database, spool, writer
        self._backlog, self._backlog_limit = writer.shares, (limit := options.backlog_bytes)
        self.aging, self.delays = aging, delays = Aging(database, writer, options.aging), StoredDelays(writer)
        self._appending = threading.Lock()
        read_db, quiet_db = (ReadDatabase(database, options.cold, all_threads=each) for each in (True, False))
        self.queries, self.access = Queries(read_db), Access(database, writer)
        self.gauges, self._has_lake = Gauges(database), options.lake is not None
        self.windows = Windows(database, writer.edition)
        self.trace_meanings = TraceMeanings(database, writer, followed.changes)
        self.matching = Matching(database, writer, followed.committed)
        self.jobs = Jobs(database, writer, quiet_db)
        self.connections = Connections(database, writer)
        self.spending = JudgeCallStore(database, writer, database.path.parent / "calls")
        self.judgements = Judgements(quiet_db)
        self.status, self.costs = StatusReader(database), CostQueries(read_db)
        self.rulebook = Rulebook(database, writer)
        self.rule_record = RuleRecord(database)
        self.outbox = Outbox(database, writer, aging)
        self.alerts = Alerts(database, writer, self.outbox)
        self.alert_mutes = AlertMutes(database, writer, aging)
        self.annotations = Annotations(database, writer)
        self.labels = Labels(read_db)
        self.review_queues = ReviewQueues(database, writer)
        self.review_feeding = ReviewFeeding(database, self.review_queues)
        self.review_turns = ReviewTurns(database, writer, delays)
        self.webhooks = Webhooks(database, writer)
        self.counted_scores = CountedScores(database, writer)
        self.monitors = Monitors(database, writer, self.outbox, self.jobs.stored)
        self.metric_monitors = MetricMonitors(database, writer, self.outbox)
        self.results_out = ResultsOut(database, writer)
        self.search, self.overview, self.agents = Search(read_db), Overview(read_db), Agents(read_db)
        self.listing, self.saved_views = Listing(read_db), SavedViews(database, writer)
        self.sessions, self.outlines = SessionQueries(read_db), Outlines(read_db)
        self.exports = Exports(read_db)
        self.datasets = Datasets(database, writer)
        self.runs = Runs(database, writer, aging, delays)
        self.run_items = RunItems(database, writer)
        self.run_evaluations = RunEvaluations(database, writer)
        self.run_looks = RunLooks(database, writer, self.outbox)
        self.quality = Quality(read_db)
        self._rewriting = make_rewriting(database, writer, is_behind=lambda: writer.shares.total > limit // 4)
        self.deletions = Deletions(database, writer, settle=lambda: self._wait_until_committed(spool.sequence))
        self.erasure = Erasure(
            database,
            writer,
            self.deletions,
            self._rewriting,
            set_aside=database.path.parent / _SET_ASIDE,
            empty_spool=self._empty_spool,
        )
        self.retention = Retention(database, writer, self._rewriting, self.erasure, aging)

    @classmethod
    def open(cls, directory: Path, options: StoreOptions | None = None) -> Self:
        """Lock the directory, migrate the database, and commit the rest of the spool.

        Files that this process creates from then on, anywhere, are readable by their owner alone.

        Raises:
            Unusable: the directory is in use, its database is foreign or newer, or the setting `lake` cannot be met.
            ReadOnly: the directory cannot be written, and `may_only_read` is false, or it must be written first.
            NoRoom: the disk is full.
            Overloaded: the recorded calls to judges cannot be written to the database.
        """
        options = _with_lake(options or StoreOptions(), directory)
        keep_new_files_private()
        with needing_room(directory), ExitStack() as undo:
            lock = DirectoryLock(directory, may_only_read=options.may_only_read)
            undo.callback(lock.close)
            if not (is_read_only := lock.is_read_only):
                release_reserve(directory)
                lock.describe(http=options.http)
                remove_leftovers(directory)
                make_private(directory)
            database = Database(directory, options.database, report=options.report, is_read_only=is_read_only)
            undo.callback(database.close)
            position = read_state(database).position
            options.report(StartStep(name="reading the spool"))
            spool = Spool(directory / "spool", after=position, is_read_only=is_read_only)
            undo.callback(spool.close)
            followed = _Followed()
            writer = Writer(
                database,
                options.writer,
                shares=Shares(options.backlog_bytes),
                released=spool.release,
                committed=followed.note,
                set_aside=directory / _SET_ASIDE,
            )
            store = cls(lock, database, spool, writer, followed, options)
            if is_read_only:
                store._require_all_committed(position)
                undo.pop_all()
                return store
            options.report(StartStep(name="reading the keys of the latest spans"))
            writer.start()
            undo.callback(writer.close, _STOP_S)
            store._recover(position, options.report)
            store.aging.note()
            store.spending.open()
            undo.pop_all()
        return store

    def lake(self, uri: str) -> "Lake":
        """Return the lake at a URI or in a directory, to which this store's rows can be published.

        Raises:
            ImportError: the extra `lake` is not installed.
        """
        from storage.lake.publishing import Lake  # noqa: PLC0415 - an extra, and it takes a while to load

        return Lake(self._database, self._writer, uri)

    @cached_property
    def moving(self) -> Moving:
        """Return the deletion of traces that have moved to a lake."""
        return Moving(self._database, self._writer, self._rewriting, self.retention, self.aging)

    def lake_upkeep(self, lake: "Lake") -> "LakeUpkeep":
        """Return the upkeep of a lake; from now on, deletions also remove traces from this lake."""
        from storage.lake.upkeep import LakeUpkeep  # noqa: PLC0415 - as in `lake`

        upkeep = LakeUpkeep(lake, self._database, self._writer, self.erasure)
        self.erasure.lake = upkeep.erasure
        return upkeep

    def lake_scope(self) -> LakeScope | None:
        """Return what a reader of the lake elsewhere has to know; None if nothing has moved there."""
        return lake_scope(self._database, self._writer.edition)

    @cached_property
    def left_behind(self) -> str | None:
        """Return what moved to a lake and is not read, because no lake is set, and the remedy; None if nothing is."""
        moved = None if self._has_lake else moved_to_lake(self._database)
        if moved is None:
            return None
        size = f"{moved.traces:,} traces with {moved.spans:,} spans" if moved.traces else "traces"
        return f"{size} moved to a lake and are not read, because none is set; set TRACEJURY_LAKE to its place"

    def rename_in_lake(self, *, gives_up: bool) -> None:
        """Give this directory a new id in the lake; a copy of a directory needs one before it publishes.

        `gives_up` makes it forget the traces that moved.
        """

        def rename(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("forget_lake_boundary"), {"all": gives_up})
            if not gives_up:
                cursor.execute(sql.query("keep_lake_name"))
            cursor.execute(sql.query("forget_lake_positions"))

        self._writer.store(rename, 1)

    @property
    def totals(self) -> Totals:
        """Return the totals of committed spans and log records."""
        return self._writer.totals

    def require_writable(self) -> None:
        """Refuse work that writes to a read-only directory.

        Raises:
            ReadOnly: the directory is read-only.
        """
        self._database.require_writable()

    @property
    def backlog_bytes(self) -> int:
        """Return the bytes of spans that are durable but not committed."""
        return self._backlog.total

    @property
    def failing(self) -> str | None:
        """Return why commits fail, or why the database cannot be opened again, or None."""
        return self._writer.failing or self._database.problem

    @property
    def is_short_of_room(self) -> bool:
        """Return True while the disk is nearly full: only spans, and statements that free space, are stored."""
        return self._writer.is_short_of_room

    def keep_room(self) -> None:
        """Keep room on the disk for spans that wait for their commit, and for a start on a full disk."""
        self._writer.kept_free_bytes = self._backlog_limit + 2 * _KEPT_FREE_BYTES
        self._database.room.keep_reserve(_KEPT_FREE_BYTES)

    @property
    def damage(self) -> Damage:
        """Return the damage of stored data found since the start."""
        return self._database.damage

    @property
    def raised_bytes(self) -> int | None:
        """Return DuckDB's memory limit in bytes if it had to be raised, else None."""
        return self._database.raised_bytes

    @property
    def overload(self) -> str | None:
        """Return why spans of all senders are refused at the moment, or None."""
        return self._why_unable() or (self._behind() if self._backlog.is_full else None)

    def _why_unable(self) -> str | None:
        if self._database.is_read_only:
            return "the data directory is read-only"
        if self.disk_is_full:
            return "the disk is full; the remaining space is reserved for spans that wait for their commit"
        if (self._database.closed_s or 0.0) > _CLOSED_S:
            return f"the database cannot be opened ({self._database.problem})"
        return None

    def _behind(self, sender: str | None = None) -> str:
        why = self._writer.failing
        reason = f"the database cannot be written ({why})" if why else "the database is behind"
        share = "" if sender is None else f", {self._backlog.of(sender) >> 20} MiB of them of this sender"
        remedy = "send again later; if that does not end, see the log of the server"
        limit = Limit(value=self._backlog_limit, unit="bytes", setting="backlog_bytes", remedy=remedy)
        waiting = f"{self._backlog.total >> 20} MiB wait for their commit{share}"
        return f"{reason}: {waiting}; one client may fill three quarters of {limit}"

    @property
    def disk_free_bytes(self) -> int:
        """Return the free space on the disk."""
        return self._spool.free_bytes

    @property
    def lack_of_room(self) -> str | None:
        """Return why deletions and expiry cannot free disk space, and what to do, or None."""
        return None if self._database.has_room() else self._database.lack_of_room()

    @property
    def disk_is_full(self) -> bool:
        """Return True if the free space is reserved for spans that wait for their commit."""
        return self._spool.free_bytes < self._backlog_limit + _KEPT_FREE_BYTES

    @property
    def writing_s(self) -> float | None:
        """Return the seconds of the writer's current attempt; None while idle, infinite once its thread has ended."""
        return self._writer.attempt.seconds

    def check_room(self, sender: str, nbytes: int = 0) -> None:
        """Refuse a sender whose uncommitted bytes, together with a request of `nbytes`, exceed its share.

        Raises:
            Overloaded: too much waits for its commit, the disk is full, or nothing can be written.
        """
        has_room = self._backlog.has_room(sender, nbytes)
        self._refuse(self._why_unable() or (None if has_room else self._behind(sender)))

    def append(self, batches: list[SpanBatch], weights: Mapping[str, int] | None = None) -> None:
        """Store batches: durable on return, visible within three commit intervals unless commits are behind.

        `weights` has the amount that each sender contributed, in any unit; the batches' bytes are divided accordingly.

        Raises:
            Overloaded: the database cannot be written now.
        """
        weights = weights or {"": 1}
        if len(weights) == 1:
            self.check_room(next(iter(weights)))
        else:
            self._refuse(self.overload)
        with self._appending:
            groups = self._spool.append(batches)
            self._writer.enqueue([replace(each, parts=parts_of(each.nbytes, weights)) for each in groups])

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise Overloaded(why, retry_after_s=5 if self._writer.failing or self.disk_is_full else 1)

    def wait_committed(self, timeout_s: float) -> bool:
        """Wait until everything that was appended is committed; False when that took too long."""
        return self._writer.wait_committed(timeout_s)

    def backup(self, target: IO[bytes]) -> None:
        """Write a copy of the database, with all data acknowledged before, to an open file, and check the copy.

        Raises:
            Overloaded: commits are behind, or the database changes too much; try again later.
            Damaged: the copy, and so most likely the database, cannot be read completely.
            OSError: the copy cannot be written.
        """
        if not self._database.is_read_only:
            self._wait_until_committed(self._spool.sequence)
            self.spending.flush(_FLUSH_S)
        with self._rewriting.steady, logged(log, "a backup"):
            copy_database(self._database, self._writer, target)
            damage = check_database(descriptor_path(target)).damage
            if damage is not None:
                self.damage.note("backup", damage)
                raise Damaged(f"the copy cannot be read completely ({damage})")

    def close(self, timeout_s: float = 30) -> None:
        """Commit the spool, checkpoint, and release the directory; spans not committed by the deadline stay spooled."""
        self.queries.close()
        if not self._database.is_read_only:
            self._stop_writing(timeout_s)
        self._spool.close()
        self._database.close()
        self._lock.close()

    def _stop_writing(self, timeout_s: float) -> None:
        self.aging.note()
        self.spending.close(_FLUSH_S)
        if self._writer.close(timeout_s):
            try:
                self._database.checkpoints.make()
            except (Busy, duckdb.Error) as error:  # DuckDB's log keeps what a checkpoint could not move
                log.warning("the checkpoint at shutdown failed; the next start repeats it: %s", error)
        else:
            log.warning("stopped before all spans were committed; the next start commits the rest from the spool")

    def _wait_until_committed(self, sequence: int) -> None:
        """Wait until the spool's groups up to `sequence` are committed, while later ones may arrive."""
        deadline_s = time.monotonic() + _COMMIT_WAIT_S
        while read_state(self._database).position.sequence < sequence:
            if time.monotonic() > deadline_s:
                limit = Limit(value=_COMMIT_WAIT_S, unit="s", remedy="try again when less is sent")
                raise Overloaded(f"spans wait for their commit longer than {limit}", retry_after_s=5)
            time.sleep(_COMMIT_POLL_INTERVAL_S)

    def _empty_spool(self) -> None:
        """Wait for the commit of all spooled spans, and delete the spool's files with them."""
        with self._appending:
            self._spool.rotate()
            last = self._spool.sequence
        self._wait_until_committed(last)
        self._writer.between(lambda: self._spool.release(last))

    def _require_all_committed(self, position: Position) -> None:
        # The database of a server that was killed lacks spans that are in its spool.
        if any(self._spool.recover(position)) or self._spool.lost.records or not self.spending.is_all_written():
            raise ReadOnly(self._database.path.parent, "its last server had no time to commit all that it received")

    def _recover(self, position: Position, report: Report) -> None:
        total, recovered = self._spool.nbytes, 0
        report(StartStep(name="committing the spool, in bytes", done=lambda: total - self._spool.nbytes, total=total))
        for group in self._spool.recover(position):
            self._writer.enqueue([group])
            recovered += group.batch.num_rows
        if recovered:
            log.info("recovered %d spans and log records from the spool", recovered)
            self._writer.wait_committed(_RECOVERY_S)
        if self._spool.is_damaged:
            self._report_lost()

    def _report_lost(self) -> None:
        """Report damage of the spool, and remove its files, so that it is reported once; the rest is committed."""
        lost = self._spool.lost
        if lost.records:
            self.damage.note("spool", str(lost), LOST_RECORDS)
            self.damage.lost_rows += lost.rows + lost.uncounted
            log.error("spool: %s; %s", lost, LOST_RECORDS)
        else:
            log.warning("spool: all spans and log records of the damaged records are in the database; none is lost")
        with suppress(Overloaded):  # such as on a full disk; then the next start reports the damage again
            self._writer.between(lambda: self._spool.release(read_state(self._database).position.sequence))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _with_lake(options: StoreOptions, directory: Path) -> StoreOptions:
    """Return options with the reader of the lake, if there is one."""
    if options.lake is None:
        return options
    if "://" not in options.lake:
        _refuse_place(Path(options.lake), directory)
    try:
        from storage.lake.reading import LakeReader  # noqa: PLC0415 - an extra, and it takes a while to load
    except ImportError as error:
        raise Unusable(f"lake: {error.name} is not installed; install tracejury[lake]") from error
    reader = LakeReader(options.lake, options.lake_endpoint)
    return replace(options, cold=reader, database=replace(options.database, attach=reader.attach))


def _refuse_place(place: Path, directory: Path) -> None:
    """Refuse a directory that can never be a lake; one that cannot be reached or written now may be later."""
    remedy = "set it to a directory of its own, such as /srv/lake, or to s3://BUCKET/PREFIX"
    if place.resolve().is_relative_to(directory.resolve()):
        raise Unusable(f"lake: {place} is within the data directory {directory}; {remedy}")
    above = next(each for each in (place, *place.parents) if each.exists())
    if not above.is_dir():
        raise Unusable(f"lake: {above} is not a directory; {remedy}")
    try:
        if above != place:
            Path(mkdtemp(dir=above)).rmdir()
    except FileNotFoundError as error:  # such as in /proc
        raise Unusable(f"lake: {place} cannot be made; {remedy}") from error
    except OSError:  # such as a directory that is not mounted yet
        return


class _Followed:
    """Notifications of commits to their followers."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.committed = threading.Event()

    def note(self, traces: Mapping[TraceKey, int], batch: int) -> None:
        """Note how many spans of each trace a commit changed."""
        self.changes.note(traces, batch)
        self.committed.set()
