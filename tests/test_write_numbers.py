"""The number of a row's last write: a row written or changed later has a greater one."""

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from storage.store import Store
from tests.log_requests import MESSAGE, a_log, a_log_batch, a_log_export
from tests.matching import adding_up
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit

NUMBERED = frozenset(
    {
        "decision",
        "judge_call",
        "log_record",
        "review_entry",
        "span",
        "superseded",
        "tool_call",
        "trace_part",
        "trace_reading",
    }
)


def query_files() -> Iterator[Path]:
    """Yield the files of statements."""
    yield from Path(str(resources.files("storage"))).glob("queries/*/*.sql")


def written_after(store: Store, table: str, number: int) -> tuple[int, int]:
    """Return how many rows of a table were written after a number, and the greatest number of all."""
    with store._database.cursor() as cursor:
        counts = f"SELECT count(*) FILTER (write_number > $number), coalesce(max(write_number), 0) FROM {table}"
        ((rows, last),) = cursor.execute(counts, {"number": number}).fetchall()
    return rows, last


def test_every_update_gives_a_new_number() -> None:
    """Each UPDATE of a table whose rows have numbers sets the number: otherwise the change is never followed."""
    updates = [(file.name, *re.findall(r"^UPDATE (\w+)", file.read_text(), re.MULTILINE)) for file in query_files()]
    changing = {name for name, *tables in updates if NUMBERED & set(tables)}
    assert changing >= {"replace_meanings.sql", "complete_tool_calls.sql", "settle_judge_calls.sql"}
    setting = {file.name for file in query_files() if "write_number = nextval('write_number')" in file.read_text()}
    assert changing == setting


def test_a_span_that_a_later_log_record_changes_is_written_again(tmp_path: Path) -> None:
    """The span whose reading changed has a new number, others keep theirs, and its trace is summed again."""
    record = a_log(0, event_name=MESSAGE, body=AnyValue(string_value="hello"))
    with a_store(tmp_path) as store, adding_up(store) as traces:
        commit(store, a_batch(an_export(20)))
        assert traces.wait_idle(WAIT_S)
        assert written_after(store, "span", 0)[0] == 20
        spans, readings = written_after(store, "span", 0)[1], written_after(store, "trace_reading", 0)[1]
        commit(store, a_log_batch(a_log_export(record)))
        assert traces.wait_idle(WAIT_S)
        assert written_after(store, "span", spans)[0] == 1
        assert written_after(store, "trace_reading", readings)[0] == 1


def test_numbers_grow_over_restarts(tmp_path: Path) -> None:
    """After each start the next write has a greater number than all before."""
    last = 0
    for number in range(3):
        with a_store(tmp_path) as store:
            assert written_after(store, "span", last) == (0, last)
            commit(store, a_batch(an_export(5, trace=number, first=5 * number)))
            rows, last = written_after(store, "span", last)
            assert rows == 5
