"""The journal of requests to judges: recorded calls are there after a crash, whatever was cut off."""

import datetime as dt
from pathlib import Path

import pytest

from storage.errors import Overloaded
from storage.judging.call_journal import CallJournal, JournalRecord, ReservedCall, SettledCall

NOON = dt.datetime(2026, 11, 21, 12, 0, 0, 250, dt.UTC).replace(tzinfo=None)


def a_call(number: int) -> ReservedCall:
    """Build a request that is set aside for."""
    return ReservedCall(
        call_id=number,
        day=NOON.date(),
        tenant="",
        project="shöp",
        rule_id=None,
        connection_id="c",
        job_id=number,
        reserved_tokens=100,
        reserved_usd=0.1 + 0.2,
        started_at=NOON,
    )


def an_answer(number: int) -> SettledCall:
    """Build a settled call."""
    return SettledCall(
        call_id=number, input_tokens=1, output_tokens=None, tokens=3, usd=None, outcome="answered", ended_at=NOON
    )


RECORDS = [
    JournalRecord(reserved=(a_call(1), a_call(2))),
    JournalRecord(reserved=(a_call(3),), settled=(an_answer(1),)),
    JournalRecord(settled=(an_answer(2), an_answer(3))),
]


def read(directory: Path) -> list[JournalRecord]:
    """Read the journal as a new process does."""
    return list(CallJournal(directory).recover())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Records come back as they were, in their order, over several files and starts."""
    for record in RECORDS:
        journal = CallJournal(tmp_path)
        journal.append(record)
        journal.rotate()
        journal.append(JournalRecord(reserved=(a_call(9),)))
        journal.rotate()
    assert read(tmp_path)[::2] == RECORDS
    assert len(list(tmp_path.iterdir())) == 6


def test_what_is_torn_is_left_out(tmp_path: Path) -> None:
    """Wherever a file ends, the whole records before that are read, and no other."""
    journal = CallJournal(tmp_path / "whole")
    path, ends = tmp_path / "whole" / "000000000001.calls", [0]
    for record in RECORDS:
        journal.append(record)
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    torn = tmp_path / "torn"
    torn.mkdir()
    for length in range(len(data) + 1):
        (torn / path.name).write_bytes(data[:length])
        assert read(torn) == RECORDS[: sum(end <= length for end in ends[1:])]
    (torn / path.name).write_bytes(data[: ends[1] + 20] + b"?" + data[ends[1] + 21 :])
    assert read(torn) == RECORDS[:1]


def test_what_was_released_is_gone(tmp_path: Path) -> None:
    """Files that the database has are removed, those that are written to stay."""
    journal = CallJournal(tmp_path)
    journal.append(RECORDS[0])
    assert not journal.full
    journal.rotate()
    full = journal.full
    journal.append(RECORDS[1])
    journal.release(full)
    assert read(tmp_path) == RECORDS[1:2]


def test_after_a_failure_it_goes_on_in_another_file(tmp_path: Path) -> None:
    """A failed write is reported, and hides no later record."""
    journal = CallJournal(tmp_path)
    (tmp_path / "000000000001.calls").symlink_to("/dev/full")
    with pytest.raises(Overloaded, match="No space left"):
        journal.append(RECORDS[0])
    journal.append(RECORDS[1])
    (tmp_path / "000000000001.calls").unlink()
    assert read(tmp_path) == RECORDS[1:2]
