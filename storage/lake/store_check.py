"""Check of a store before the first publication: its conditional PUT has to be atomic, or commits are lost."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from storage.errors import Unpublished

STORE_OPTIONS: Final = {
    "aws_conditional_put": "etag",
    "aws_s3_allow_unsafe_rename": "false",
    "connect_timeout": "5s",
    "timeout": "30s",
    "max_retries": "3",
    "retry_timeout": "20s",
}
"""Credentials, region and endpoint of an object store come from the environment (`AWS_ACCESS_KEY_ID`, …). The times are
guesses: only the lake's thread waits for the store, but at shutdown the server waits for that thread."""

_RACERS: Final = 8
_TABLE: Final = "store_check"
_NAME: Final = "check"
_SCHEMA: Final = pa.schema([pa.field("number", pa.int64())])


def check_store(uri: str) -> None:
    """Commit to one table eight times at once from the same snapshot: one commit must succeed, the others fail.

    Raises:
        Unpublished: the store lets more than one succeed.
        DeltaError, OSError: the store cannot be reached.
    """
    place = f"{uri}/{_TABLE}"
    DeltaTable.create(place, schema=_SCHEMA, mode="ignore", storage_options=STORE_OPTIONS)
    tables = [DeltaTable(place, storage_options=STORE_OPTIONS) for _ in range(_RACERS)]
    number = (tables[0].transaction_version(_NAME) or 0) + 1
    failures = _race(tables, CommitProperties(app_transactions=[Transaction(_NAME, number)]))
    winners = _RACERS - len(failures)
    if winners > 1:
        raise Unpublished(
            f"{uri} is not safe to publish to: of {_RACERS} writers of the same log entry {winners} succeeded, where"
            " only one may. Use a store whose PUT with If-None-Match is atomic"
        )
    if not winners:
        raise failures[0]


def _race(tables: list[DeltaTable], properties: CommitProperties) -> list[Exception]:
    barrier = threading.Barrier(len(tables))

    def commit(table: DeltaTable) -> Exception | None:
        barrier.wait()
        try:
            table.create_write_transaction([], "append", _SCHEMA, commit_properties=properties)
        except (DeltaError, OSError) as error:
            return error
        return None

    with ThreadPoolExecutor(len(tables)) as pool:
        return [error for error in pool.map(commit, tables) if error is not None]
