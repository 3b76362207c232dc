"""Room that senders share: none takes what the others need."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.ingest import ByteBudget
from storage.errors import Overloaded
from storage.ingest.shares import Shares, parts_of
from tests.limits import a_limit
from tests.storing import a_batch, a_store, an_export

LIMIT = 1000
STEPS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-400, 400)), max_size=50)


@given(steps=STEPS)
def test_there_is_room_for_a_sender_that_holds_nothing(steps: list[tuple[str, int]]) -> None:
    """Whatever others were granted, no more than the room is held, and one that holds nothing gets a part of it."""
    shares, held = Shares(LIMIT), Counter[str]()
    for sender, nbytes in steps:
        if nbytes < 0 or shares.has_room(sender, nbytes):
            taken = max(nbytes, -held[sender])
            shares.take(sender, taken)
            held[sender] += taken
        assert [shares.of(each) for each in "abcde"] == [held[each] for each in "abcde"]
        assert shares.total == held.total() <= LIMIT
        assert max(held.values()) <= LIMIT * 3 / 4
        assert not shares.is_full
        assert shares.has_room("new", 1) or shares.total >= LIMIT - 1


@given(nbytes=st.integers(0, 10**9), weights=st.dictionaries(st.text(max_size=2), st.integers(1, 10**6), min_size=1))
def test_parts_add_up(nbytes: int, weights: dict[str, int]) -> None:
    """The bytes of a batch are divided without a rest."""
    parts = parts_of(nbytes, weights)
    assert sum(parts.values()) == nbytes
    assert all(part >= 0 for part in parts.values())


def test_a_request_larger_than_the_room_leaves_some_to_others() -> None:
    """One sender at a time may have one such request, and others go on beside it."""
    budget = ByteBudget(a_limit(LIMIT))
    budget.take(LIMIT, sender="large")
    budget.take(5 * LIMIT, own=LIMIT, sender="large")
    budget.take(100, sender="small")
    for sender, nbytes in (("large", 1), ("also large", LIMIT)):
        with pytest.raises(Overloaded):
            budget.take(nbytes, sender=sender)
    budget.give_back(6 * LIMIT, sender="large")
    budget.take(LIMIT, sender="also large")
    assert budget.held == LIMIT + 100
    assert budget.held_by("large") == 0


@given(sizes=st.lists(st.integers(1, 2 * LIMIT), max_size=40), piece=st.integers(1, LIMIT))
def test_first_requests_of_many_senders_share_the_room(sizes: list[int], piece: int) -> None:
    """However many begin a request, all but one large one stay in the room, and a small one has room beside them."""
    budget = ByteBudget(a_limit(LIMIT))
    for number, size in enumerate(sizes):
        own = 0
        with suppress(Overloaded):
            while own < size:
                budget.take(min(piece, size - own), own=own, sender=str(number))
                own += min(piece, size - own)
    held = [budget.held_by(str(number)) for number in range(len(sizes))]
    assert budget.held - max(held, default=0) <= LIMIT
    if sum(min(each, LIMIT * 3 // 4) for each in held) < LIMIT - 1:
        budget.take(1, sender="small")


def test_a_sender_that_has_its_share_of_the_backlog_stops_no_other(tmp_path: Path) -> None:
    """Its spans are refused, and those of others are not, even if they were sent at the same time."""
    with a_store(tmp_path, commit_interval_s=60, backlog_bytes=100_000) as store:
        for number in range(100):
            try:
                store.append([a_batch(an_export(100, first=100 * number))], {"loud": 1})
            except Overloaded as error:
                assert "of this sender" in str(error)  # noqa: PT017 - it comes after as many as have room
                break
        assert store.overload is None
        with pytest.raises(Overloaded, match="of this sender"):
            store.check_room("quiet", 200_000)
        store.check_room("quiet")
        store.append([a_batch(an_export(1, trace=1))], {"loud": 1, "quiet": 1})
        store.append([a_batch(an_export(1, trace=2))], {"quiet": 1})
        stored = store.backlog_bytes
        assert 75_000 < stored < 100_000
