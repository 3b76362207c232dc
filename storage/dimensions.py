"""Which resources and scopes are stored already."""

import pyarrow as pa


class StoredIds:
    """Ids of resources or scopes that are surely stored; forgetting one costs a look-up in the table."""

    _CAPACITY = 100_000

    def __init__(self, column: str) -> None:
        self._column = column
        self._ids: set[int] = set()

    def unknown(self, rows: pa.Table) -> pa.Table:
        """The rows whose ids are not known, each id once."""
        ids = rows.column(self._column).to_pylist()
        first_of = {identity: row for row, identity in enumerate(ids) if identity not in self._ids}
        return rows.take(pa.array(sorted(first_of.values()), pa.int64()))

    def add(self, rows: pa.Table) -> None:
        """Remember rows that were stored."""
        if len(self._ids) + rows.num_rows > self._CAPACITY:
            self._ids.clear()
        self._ids.update(rows.column(self._column).to_pylist())

    def clear(self) -> None:
        """Forget all."""
        self._ids.clear()
