"""Interface of the reader that derives the meaning of each span by the conventions: the columns of `MEANINGS`."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from storage.ingest.batch import MEANINGS


class Reads(Protocol):
    """Reader of the meaning of spans. For one thread; it never raises, whatever the attributes hold."""

    @property
    def edition(self) -> str:
        """Return an id of the reader's rules; a reader with another edition may give the same spans another meaning."""

    @property
    def call_ids(self) -> Mapping[str, str]:
        """Return the names of events that report the end of tool calls, with the attribute of the call's id.

        Log records of such events belong to the spans of these calls, too.
        """

    def spans(self, spans: pa.Table, logs: pa.Table) -> pa.Table:
        """Return a row of `batch.MEANINGS` for each row of the table `span`, from it and its log records."""


class NobodyReads:
    """Stand-in without a reader: rows have no meaning, and no edition."""

    edition = ""
    call_ids: Mapping[str, str] = {}

    def spans(self, spans: pa.Table, logs: pa.Table) -> pa.Table:  # noqa: ARG002 - as the protocol has it
        """Return rows of NULL."""
        return pa.table([pa.nulls(spans.num_rows, field.type) for field in MEANINGS], schema=MEANINGS)
