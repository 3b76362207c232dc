"""Replacement of `Compaction` when the workaround is off: row groups with deleted rows are not rewritten."""

from collections.abc import Callable, Iterator, Sequence

from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.upkeep.compaction import Compaction


class KeptRowGroups(Compaction):
    """Compaction without rewriting: any number of rows may be deleted, and DuckDB drops empty row groups.

    Until a row group is empty, the bytes of its deleted rows stay in the file, and it takes 512 kB of memory.
    """

    def has_room(self, tables: Sequence[str]) -> bool:  # noqa: ARG002 - the signature of `Compaction`
        """Return True: rows may always be deleted."""
        return True

    def make_room(self, tables: Sequence[str], stopped: Callable[[], bool]) -> None:
        """Do nothing: there is always room."""

    def steps(self, tables: Sequence[str], *, is_last: bool = False) -> Iterator[None]:  # noqa: ARG002 - likewise
        """Let DuckDB drop empty row groups; nothing is rewritten.

        Raises:
            Overloaded: there are readers all the time, or the database cannot be written now.

        """
        self.drop()
        yield from ()


def make_rewriting(database: Database, writer: Writer, *, is_behind: Callable[[], bool]) -> Compaction:
    """Return a `Compaction`, or `KeptRowGroups` if the workaround `rewrite_row_groups` is off."""
    kind = Compaction if database.workarounds.rewrite_row_groups else KeptRowGroups
    return kind(database, writer, is_behind=is_behind)
