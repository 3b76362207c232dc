"""Queries about traces between whose commits many others lie: each is looked up in its extent."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ingest.windows import Extent, Limits, TraceKey, extents_of, groups_of
from storage.store import Store
from tests.judged import put, seqs
from tests.storing import a_batch, a_store, an_export, commit, rows, trace_id
from tests.working import Book

BETWEEN: Final = 60
FAR: Final = (0, 1, 100)  # traces; the first two come one after the other
ENOUGH: Final = Limits(rows=1_000, nbytes=1 << 30)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with two traces, many commits of others, one more trace, and a result about each of the three."""
    with a_store(tmp_path_factory.mktemp("far")) as store:
        for place, number in enumerate((*FAR[:2], *range(2, 2 + BETWEEN), FAR[2])):
            commit(store, a_batch(an_export(2, trace=number, first=2 * place)))
        revision = Book(store).rule(evaluator="length").revision
        for number in FAR:
            fields = {"trace_id": trace_id(number), "revision": revision, "seq": max(seqs(store, trace_id(number)))}
            put(store, "evaluation", job_id=number, passed=True, **fields)
        yield store


@given(commits=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 5)), min_size=1, max_size=20))
def test_each_trace_is_in_one_group(commits: list[tuple[int, int]]) -> None:
    """Groups share no commit, however the commits of traces lie."""
    extents = {
        TraceKey("", trace_id(number)): Extent(1, 0, 0, first, first + more)
        for number, (first, more) in enumerate(commits)
    }
    groups = groups_of(extents)
    assert sorted(key for group in groups for key in group) == sorted(extents)
    ends = [(min(extents[k].first_batch for k in g), max(extents[k].last_batch for k in g)) for g in groups]
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_traces_that_came_together_are_asked_for_at_once() -> None:
    """One question for neighbours, one for each that is far away."""

    def grouped(*first: int) -> list[int]:
        extents = {TraceKey("", trace_id(number)): Extent(1, 0, 0, number, number) for number in first}
        return [len(group) for group in groups_of(extents)]

    assert grouped(1, 3, 5) == [3]
    assert grouped(1, 2, 3, 500) == [3, 1]
    assert grouped(1, 500, 900) == [1, 1, 1]


def test_spans_of_traces_far_apart(store: Store) -> None:
    """All of them are returned, and no others, and a result beyond the limits is marked as cut."""
    keys = [TraceKey("", trace_id(number)) for number in FAR]
    window = store.windows.traces(keys, limits=ENOUGH)
    assert window is not None
    span_keys = sorted(zip(window.spans["trace_id"].to_pylist(), window.spans["span_id"].to_pylist(), strict=True))
    listed = ", ".join(f"'{trace_id(number)}'" for number in FAR)
    assert span_keys == rows(store, f"SELECT trace_id, span_id FROM spans WHERE trace_id IN ({listed}) ORDER BY ALL")
    assert (len(span_keys), window.is_cut) == (6, False)
    for most in (1, 4, 5):
        cut = store.windows.traces(keys, limits=Limits(rows=most, nbytes=1 << 30))
        assert cut is not None
        assert (cut.spans.num_rows, cut.is_cut) == (most, True)


@pytest.mark.parametrize("commits_each", [16, 8_192])
def test_results_of_traces_far_apart(store: Store, commits_each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each trace stand with it, whether they are looked up one by one or together."""
    monkeypatch.setattr("storage.judging.judgements._COMMITS_EACH", commits_each)
    keys = [TraceKey("", trace_id(number)) for number in (*FAR, 5)]
    with store._database.snapshot() as cursor:
        extents = extents_of(cursor, keys)
    evaluations = store.judgements.evaluations_of(extents, tenant="")
    assert {key: [each.job_id for each in listed] for key, listed in evaluations.items()} == {
        trace_id(number): [number] for number in FAR
    }
    assert store.judgements.evaluations_of({}, tenant="") == {}
