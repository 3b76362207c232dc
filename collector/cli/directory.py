"""A data directory that no server holds, as what the commands read from."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from collector.cli.connecting import NO_PARAMETERS, Document, NoAnswer, Parameters
from collector.visible import one_line, some_lines
from storage.records import ANY_JUDGING, Judging

if TYPE_CHECKING:
    import pyarrow as pa

    from collector.live.rules.rules_in_force import KeptRule
    from collector.settings import Settings
    from storage.judging.repeating import Repeated
    from storage.query.exports import Exports, Unread
    from storage.store import Store


_LOOK_S = 1.0  # between two looks at how far reading is


class StoredSpans:
    """The spans of a database, for exports. What is damaged is left out."""

    def __init__(self, exports: "Exports") -> None:
        self._exports = exports

    def spans(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> "Iterator[pa.RecordBatch]":
        """The spans that start between two instants, by time, after an empty batch with the schema."""
        return self._exports.rows(from_ns, to_ns, tenant=None, unread=unread)

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> Iterator[bytes]:
        """The spans that start between two instants, as OTLP/JSON export requests, one a line."""
        from collector.otlp.encode import json_lines

        return json_lines(self._exports.spans(from_ns, to_ns, tenant=None, unread=unread))


class Directory(StoredSpans):
    """A data directory that no server holds, opened for the time of one command.

    Whoever has the files sees the rows of all tenants.
    """

    def __init__(self, store: "Store", settings: "Settings") -> None:
        super().__init__(store.exports)
        self._store = store
        self._queries = store.queries
        self._jobs = store.jobs
        self._settings = settings

    def traces(self, *, project: str | None, limit: int, judging: Judging = ANY_JUDGING) -> list[Document]:
        """The newest traces, or those that were judged so."""
        from collector.api.documents.documents import summary_document

        if judging == ANY_JUDGING:
            summaries = self._queries.newest_traces(tenant=None, project=project, limit=limit)
        else:
            summaries = self._queries.judged_traces(judging, tenant=None, project=project, limit=limit)
        return [summary_document(summary) for summary in summaries]

    def rules(self) -> Document:
        """All rules, and what each did of late; files are not looked at."""
        from collector.api.documents.rule_documents import rules_document

        activity = self._store.status.rule_activity(time.time_ns())
        return rules_document(self._kept(), self._store.rulebook.project_ids(), activity, ())

    def status(self) -> Document:
        """How it stands."""
        from collector.api.documents.status_documents import rule_counts_document, status_document

        now_ns = time.time_ns()
        rules = rule_counts_document(self._kept(), ())
        return status_document(self._store.status.status(now_ns), rules, server=None, now_ns=now_ns)

    def _kept(self) -> "tuple[KeptRule, ...]":
        from collector.live.rules.rules_in_force import RulesInForce

        rules = RulesInForce(self._store.rulebook)
        rules.refresh()
        return rules.kept()

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""
        from collector.api.documents.documents import trace_document
        from collector.conventions.trace import read_trace

        trace = self._queries.trace(trace_id, tenant=None)
        own_keys = self._settings.own_keys
        if trace is None:
            return None
        reading = read_trace(trace.spans, trace.logs, own_keys)
        judged = self._store.judgements.of_trace(trace_id, tenant=trace.summary.tenant)
        is_part = len(trace.spans) < trace.summary.span_count
        return trace_document(trace, reading, judged, self._store.listing.reading(trace.summary) if is_part else None)

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""
        from collector.otlp.encode import json_document

        batches = self._store.exports.trace(trace_id, tenant=None)
        if batches is None:
            return None
        document: Document = json.loads(b"".join(json_document(batches)))
        return document

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query."""
        from collector.api.documents.documents import table_document
        from storage.errors import BadQuery

        try:
            rows, seconds = self._settings.sql_rows, self._settings.sql_seconds
            return table_document(self._queries.sql(statement, parameters, max_rows=rows, timeout_s=seconds))
        except BadQuery as error:
            raise NoAnswer(some_lines(str(error))) from error

    def jobs(self, wanted: Mapping[str, str], *, limit: int) -> list[Document]:
        """The newest jobs."""
        from collector.api.documents.judgement_documents import job_document
        from storage.judging.jobs import JobFilter

        state, rule, trace = (wanted.get(key) for key in ("state", "rule", "trace"))
        rows = self._jobs.page(JobFilter(state=state, rule=rule, trace_id=trace and trace.lower()), limit=limit)
        return [job_document(row) for row in rows]

    def retry_job(self, job_id: int) -> int:
        """Evaluate a failed job again."""
        repeated = self._jobs.retry([job_id], now_us=time.time_ns() // 1000)
        if job_id in repeated.refused:
            raise NoAnswer(_refusal(repeated, job_id))
        return repeated.jobs

    def retry_failed(self, filters: Mapping[str, str]) -> int:
        """Evaluate again what failed."""
        rule, error_kind = filters.get("rule"), filters.get("errorKind")
        return self._jobs.retry_failed(rule=rule, error_kind=error_kind, now_us=time.time_ns() // 1000).jobs

    def connections(self) -> list[Document]:
        """The connections to models that judge; those of files as the last server had them."""
        from collector.api.documents.connection_documents import connection_document
        from collector.live.judges.judging_hub import JudgeServices

        hub = JudgeServices.look(self._store, self._settings)
        return [connection_document(each, hub.budgets.today()) for each in hub.connections.all()]

    def try_connection(self, connection_id: str) -> Document:
        """Whether a connection works."""
        import asyncio

        from collector.live.judges.connection_trial import try_connection
        from collector.live.judges.judging_hub import JudgeServices

        self._store.require_writable()  # what the request takes is put on record first
        hub = JudgeServices.look(self._store, self._settings)
        found = hub.connections.get(connection_id)
        return asyncio.run(try_connection(found, hub.connections, hub.budgets)).document()

    def deletions(self, *, limit: int) -> list[Document]:
        """The latest deletions, and how far each is."""
        from collector.api.traces.deletions import deletion_document

        found = self._store.deletions.page(tenant=None, skip=0, most=limit)
        return [deletion_document(each, self._store.erasure.progress) for each in found]

    def sweep(self, *, dry_run: bool, is_confirmed: bool) -> Document:
        """Let expired traces leave, or say what would."""
        from collector.api.traces.retention import due_document, swept_document
        from collector.live.upkeep.sweeper import Sweeper

        sweeper = Sweeper(self._store.retention, interval_s=1, max_bytes=self._settings.max_bytes)
        return due_document(sweeper.due()) if dry_run else swept_document(sweeper.sweep(is_confirmed=is_confirmed))

    def reread(self) -> Iterator[int]:
        """Read the spans again that an older version read; how many are left."""
        from collector.reading.spans import ConventionsReader
        from collector.reading.updater import TraceUpdater

        self._store.require_writable()
        reads = ConventionsReader(self._settings.own_keys)
        traces = TraceUpdater(self._store.trace_meanings, reads, ingest_is_behind=lambda: False)
        traces.start()
        try:
            while not traces.wait_idle(_LOOK_S):
                yield self._store.status.status(time.time_ns()).older_spans
        finally:
            traces.close()
        yield 0

    def backup(self, target: Path) -> None:
        """Write a copy of the database to a file."""
        with target.open("w+b") as file:
            self._store.backup(file)


def _refusal(repeated: "Repeated", job_id: int) -> str:
    from collector.api.documents.judgement_documents import refusal

    return f"job {job_id}: {refusal(repeated.refused[job_id])}"


def read_settings(file: Path | None, flags: Mapping[str, object]) -> "Settings":
    """The settings.

    Raises:
        click.ClickException: they cannot be used, with the keys that are wrong.
    """
    from collector.settings import BadSettings
    from collector.settings_loading import load_settings

    try:
        return load_settings(file, flags)
    except BadSettings as error:
        raise click.ClickException(one_line(str(error))) from error
