"""Stand-in for `Compaction` if that is turned off: row groups with deleted rows are kept as they are."""

from collections.abc import Callable, Iterator, Sequence

from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.upkeep.compaction import Compaction


class KeptRowGroups(Compaction):
    """Lets rows be deleted without limit, and DuckDB drop row groups that have none left.

    Bytes of deleted rows stay in the file until then, and each row group that has some takes 512 kB of memory.
    """

    def has_room(self, tables: Sequence[str]) -> bool:  # noqa: ARG002 - as the one that rewrites has it
        """Return True: rows may always be deleted."""
        return True

    def make_room(self, tables: Sequence[str], stopped: Callable[[], bool]) -> None:
        """Do nothing: there is always room."""

    def steps(self, tables: Sequence[str], *, is_last: bool = False) -> Iterator[None]:  # noqa: ARG002 - as there
        """Let DuckDB drop empty row groups, which is all that there is to do.

        Raises:
            Overloaded: there are readers all the time, or the database cannot be written now.

        """
        self.drop()
        yield from ()


def make_rewriting(database: Database, writer: Writer, *, is_behind: Callable[[], bool]) -> Compaction:
    """Make the rewriter of row groups with deleted rows, or the one that keeps them if the options say so."""
    kind = Compaction if database.workarounds.rewrite_row_groups else KeptRowGroups
    return kind(database, writer, is_behind=is_behind)
