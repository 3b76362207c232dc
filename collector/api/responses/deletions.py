"""Deletions of traces on the wire."""

from functools import partial
from typing import Annotated

from collector.api.responses.wire import From, PageAnswer, WireDocument, computed, doc, time_of


class Rewritten(WireDocument):
    """Progress of the pass over the disk, which all deletions of that time share."""

    done: Annotated[int, doc("Row groups that were written anew.")]
    total: Annotated[int, doc("The estimated total number.")]


class DeletionDocument(WireDocument):
    """A deletion, with its progress."""

    id: Annotated[str, From("deletion_id")]
    tenant_id: Annotated[str | None, computed(lambda deletion: deletion.criteria.tenant or None)]
    state: Annotated[str, doc("deleting; erasing: no rows are left, but bytes on the disk; done")]
    filters: Annotated[list[str], doc("The names of the filters; their values are deleted with the rows.")]
    deleted_traces: Annotated[int, From("traces")]
    deleted_spans: Annotated[int, From("spans")]
    more: Annotated[bool, doc("True if rows may be left.")]
    looked_through: Annotated[
        float,
        From("share", partial(round, ndigits=3)),
        doc("Progress of the search through stored rows, from 0 to 1."),
    ]
    row_groups: Annotated[Rewritten | None, doc("While a pass over the disk is under way.")]
    created_at: Annotated[str, time_of("created_at_ns")]
    created_by: Annotated[str | None, doc("The name of a key.")]
    rows_gone_at: Annotated[str | None, time_of("rows_gone_at_ns")]
    finished_at: Annotated[str | None, time_of("finished_at_ns")]


class DeletionPage(PageAnswer):
    """A page of deletions."""

    content: list[DeletionDocument]
