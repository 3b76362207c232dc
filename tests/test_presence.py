"""Duplicate detection: no copy is missed, and hardly any new span is taken for one."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ingest import presence
from storage.ingest.presence import RecentKeys
from tests.storing import span_id, trace_id

CAPACITY = 1 << 10
SECOND_NS = 10**9

keys = st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 2), st.integers(0, 3))


def a_table(rows: list[tuple[str, int, int]]) -> pa.Table:
    """Return the keys of spans."""
    columns = {
        "tenant": [tenant for tenant, _, _ in rows],
        "trace_id": [trace_id(trace) for _, trace, _ in rows],
        "span_id": [span_id(span) for _, _, span in rows],
    }
    return pa.table(columns, schema=pa.schema([(name, pa.string()) for name in presence.KEY]))


def some_hashes(seed: int, count: int) -> presence.Hashes:
    """Return hashes as those of random keys are."""
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64)


@given(st.lists(keys), st.lists(keys))
def test_equal_keys_have_equal_hashes(one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]) -> None:
    """A key has one hash, wherever it stands and however its table is sliced, and other keys have others."""
    together = presence.key_hashes(a_table(one + other))
    sliced = presence.key_hashes(a_table(one + other).slice(len(one)))
    assert sliced.tolist() == together[len(one) :].tolist() == presence.key_hashes(a_table(other)).tolist()
    assert len(set(together.tolist())) == len(set(one + other))


def test_hashes_do_not_collide_and_use_every_bit() -> None:
    """A hundred thousand consecutive ids have as many hashes, in which each bit is set about half of the time."""
    count = 100_000
    table = a_table([("", number // 100, number) for number in range(count)])
    hashes = presence.key_hashes(table)
    assert len(np.unique(hashes)) == count
    ones = [int(np.count_nonzero(hashes & np.uint64(1 << bit))) for bit in range(64)]
    assert min(ones) > 0.48 * count
    assert max(ones) < 0.52 * count


@given(st.lists(keys))
def test_repeated_marks_every_copy_but_the_first(rows: list[tuple[str, int, int]]) -> None:
    """Of equal keys in a batch the first is left, whichever columns they share with others."""
    table = a_table(rows)
    expected = [row in rows[:position] for position, row in enumerate(rows)]
    assert presence.repeated(table, presence.key_hashes(table)).tolist() == expected


@given(st.lists(keys))
def test_repeated_does_not_trust_hashes(rows: list[tuple[str, int, int]]) -> None:
    """Even if all hashes were equal, only equal keys are copies."""
    expected = [row in rows[:position] for position, row in enumerate(rows)]
    assert presence.repeated(a_table(rows), np.zeros(len(rows), np.uint64)).tolist() == expected


@given(st.lists(keys), st.sets(keys))
def test_matching_finds_exactly_the_keys(rows: list[tuple[str, int, int]], expected: set[tuple[str, int, int]]) -> None:
    """A span matches when its whole key is among those asked for."""
    texts = [(tenant, trace_id(trace), span_id(span)) for tenant, trace, span in expected]
    assert presence.matching(a_table(rows), texts).tolist() == [row in expected for row in rows]


instants = st.lists(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 60 * SECOND_NS),
        st.sampled_from([0, -(2**63), 2**63 - 1, 1_795_255_200 * SECOND_NS]),
    ),
    min_size=1,
    max_size=60,
)


@given(instants)
def test_every_start_time_lies_in_a_window(times: list[int]) -> None:
    """The windows cover all start times, begin and end at one each, are in order, and are few."""
    windows = presence.windows(pa.chunked_array([pa.array(times, pa.int64())]).cast(pa.timestamp("ns")))
    assert all(any(first <= time <= last for first, last in windows) for time in times)
    assert {edge for window in windows for edge in window} <= set(times)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(windows))
    assert 1 <= len(windows) <= 16


def test_an_outlier_gets_a_window_of_its_own() -> None:
    """A clock that is off by years does not make the window of the others wide."""
    now = 1_795_255_200 * SECOND_NS
    times = [0, now, now + SECOND_NS, now + 2 * SECOND_NS, now + 10**17]
    windows = presence.windows(pa.chunked_array([pa.array(times, pa.int64())]).cast(pa.timestamp("ns")))
    assert windows == [(0, 0), (now, now + 2 * SECOND_NS), (now + 10**17, now + 10**17)]


@given(st.lists(st.integers(0, 3 * CAPACITY), max_size=12), st.integers(0, 2**32))
def test_recent_keys_forget_none_of_the_latest(sizes: list[int], seed: int) -> None:
    """However keys are added, the latest ones up to the capacity are all known."""
    recent, added = RecentKeys(capacity=CAPACITY), some_hashes(seed, sum(sizes))
    start = 0
    for size in sizes:
        recent.add(added[start : start + size])
        start += size
    assert recent.suspects(added[-CAPACITY:]).all()


@given(st.lists(st.integers(0, CAPACITY), min_size=1, max_size=12), st.integers(0, 20), st.integers(0, 2**32))
def test_all_keys_since_a_commit_are_known(sizes: list[int], first: int, seed: int) -> None:
    """Every key of the commit that is named and of all later ones is known, and what fits is not left out."""
    recent, added = RecentKeys(capacity=CAPACITY), some_hashes(seed, sum(sizes))
    recent.start(first)
    edges = list(itertools.accumulate(sizes, initial=0))
    for commit, (start, stop) in enumerate(itertools.pairwise(edges), start=first):
        recent.add(added[start:stop], commit)
    known = recent.suspects(added[edges[max(recent.since - first, 0)] :])
    assert known.all()
    fits = next(number for number, edge in enumerate(edges) if edges[-1] - edge <= CAPACITY)
    assert recent.since <= first + fits


@given(st.integers(1, CAPACITY), st.integers(1, CAPACITY), st.integers(0, 2**32))
def test_a_commit_that_is_known_in_part_does_not_count(before: int, after: int, seed: int) -> None:
    """Of a commit that was added in two parts, the first of which is forgotten, it is not said that it is known."""
    recent, added = RecentKeys(capacity=CAPACITY), some_hashes(seed, 2 * CAPACITY + before + after)
    recent.add(added[:before], 1)
    recent.add(added[before : before + after], 1)
    recent.add(added[before + after : before + after + CAPACITY], 2)
    recent.add(added[before + after + CAPACITY :], 3)
    of = {1: added[: before + after], 2: added[before + after : before + after + CAPACITY]}
    assert all(recent.suspects(keys).all() for commit, keys in of.items() if commit >= recent.since)


@given(st.lists(st.integers(0, 50), max_size=100))
def test_recent_keys_take_the_same_keys_again(numbers: list[int]) -> None:
    """Keys that are equal, or that share bits, are known after they were added together."""
    hashes = np.array(numbers, np.uint64)
    recent = RecentKeys(capacity=CAPACITY)
    recent.add(hashes)
    assert recent.suspects(hashes).all()


def test_recent_keys_hardly_suspect_a_new_key() -> None:
    """Of two million unknown keys, at most a few dozen are taken for known, with both generations full."""
    recent = RecentKeys(capacity=1 << 16)
    assert recent.capacity == 1 << 16
    for seed in range(4):
        recent.add(some_hashes(seed, 1 << 16))
    assert np.count_nonzero(recent.suspects(some_hashes(99, 2_000_000))) < 100


def test_recent_keys_forget_the_oldest() -> None:
    """A key is forgotten after twice the capacity of later ones, so that the filter stays bounded."""
    recent, first = RecentKeys(capacity=CAPACITY), some_hashes(1, CAPACITY)
    recent.add(first)
    recent.add(some_hashes(2, CAPACITY))
    assert recent.suspects(first).all()
    recent.add(some_hashes(3, CAPACITY))
    assert np.count_nonzero(recent.suspects(first)) < 5


@pytest.mark.parametrize("count", [0, 1])
def test_few_keys_are_no_special_case(count: int) -> None:
    """No key and one key are hashed, added and looked up like many."""
    table = a_table([("", 0, 0)] * count)
    hashes = presence.key_hashes(table)
    recent = RecentKeys(capacity=CAPACITY)
    assert recent.suspects(hashes).tolist() == [False] * count
    recent.add(hashes)
    assert recent.suspects(hashes).tolist() == [True] * count
