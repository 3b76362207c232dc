"""Votes of several judges: the median, in any order of requests."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.jury import JudgeVote, outcome_of_votes
from evaluators.outcome import Direction, Failure, Outcome, Skipped, Usage, Verdict

SPENT = Usage(calls=1, model="m", input_tokens=10, output_tokens=2, cost_usd=0.5, latency_ms=5)


def a_verdict(score: float, *, direction: Direction = "higher", fingerprint: str = "f") -> Verdict:
    """Build the verdict of one judge, with a threshold of a half."""
    return Verdict(
        name="Polite",
        fingerprint=fingerprint,
        score=score,
        threshold=0.5,
        direction=direction,
        reason=f"{score}",
        metadata={},
        usage=SPENT,
    )


def counted(*outcomes: Outcome) -> Outcome:
    """Combine the votes."""
    return outcome_of_votes(
        [JudgeVote(connection=f"c{at}", model="m", outcome=each) for at, each in enumerate(outcomes)]
    )


@given(
    st.sampled_from([3, 5, 7, 9]).flatmap(lambda size: st.lists(st.floats(0, 1), min_size=size, max_size=size)),
    st.sampled_from(["higher", "lower"]),
)
def test_the_middle_passes_where_most_do(scores: list[float], direction: Direction) -> None:
    """The score is one that was given, passes if and only if most votes do, and agreement is the share on its side."""
    vote = counted(*(a_verdict(score, direction=direction) for score in scores))
    assert isinstance(vote, Verdict)
    passing = sum(a_verdict(score, direction=direction).success for score in scores)
    assert vote.score in scores
    assert vote.success is (passing > len(scores) / 2)
    agreeing = passing if vote.success else len(scores) - passing
    assert vote.metadata["judgesAgreement"] == agreeing / len(scores) > 0.5
    assert vote.usage is not None
    assert (vote.usage.calls, vote.usage.cost_usd) == (len(scores), len(scores) / 2)


def test_the_order_of_judges_makes_no_difference() -> None:
    """A jury has one fingerprint however its judges are listed, and another one with another judge."""
    prints = {
        counted(*(a_verdict(0.5, fingerprint=each) for each in order)).fingerprint
        for order in itertools.permutations(["a", "b", "c"])
    }
    assert len(prints) == 1
    assert counted(*(a_verdict(0.5, fingerprint=each) for each in "abd")).fingerprint not in prints


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_vote_that_failed_or_found_nothing_is_no_vote(place: int) -> None:
    """The jury fails as that vote did, or is skipped, under its own fingerprint, and all costs are reported."""
    votes: list[Outcome] = [a_verdict(1), a_verdict(0), a_verdict(1)]
    own = counted(*votes).fingerprint
    votes[place] = Failure(name="n", fingerprint="f", kind="timeout", message="too slow", usage=None, retry_after_s=3)
    failed = counted(*votes)
    assert isinstance(failed, Failure)
    assert (failed.kind, failed.message, failed.retry_after_s) == ("timeout", f"c{place}: too slow", 3)
    assert failed.usage is not None
    assert (failed.usage.calls, failed.fingerprint) == (2, own)
    assert counted(*votes[:place], replace(failed, fingerprint=None), *votes[place + 1 :]).fingerprint is None
    votes[place] = Skipped(name="n", fingerprint="f", reason="empty", usage=SPENT)
    skipped = counted(*votes)
    assert isinstance(skipped, Skipped)
    assert skipped.usage is not None
    assert (skipped.usage.calls, skipped.fingerprint) == (3, own)
