"""The votes of several judges about one test case, as one outcome."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from evaluators.outcome import Failure, Outcome, Skipped, Usage, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVote:
    """Vote of one judge; `connection` is the name of its connection."""

    connection: str
    model: str | None
    outcome: Outcome


def outcome_of_votes(votes: Sequence[JudgeVote]) -> Outcome:
    """Return the verdict with the median score, with all votes and the share of them that agree with it.

    There must be an odd number of votes. If a vote failed, the outcome is its failure; else if one was
    skipped, it is skipped. The usage is the sum over all votes. The fingerprint is that of all judges together; a
    failure has no fingerprint if that of one judge is unknown.
    """
    usage = _usage(votes)
    known = [vote.outcome.fingerprint for vote in votes if vote.outcome.fingerprint is not None]
    fingerprint = jury_fingerprint(known)
    for vote in votes:
        if isinstance(vote.outcome, Failure):
            message, of_all = (
                f"{vote.connection}: {vote.outcome.message}",
                fingerprint if len(known) == len(votes) else None,
            )
            return replace(vote.outcome, message=message, fingerprint=of_all, usage=usage)
    skipped = next((vote.outcome for vote in votes if isinstance(vote.outcome, Skipped)), None)
    if skipped is not None:
        return replace(skipped, fingerprint=fingerprint, usage=usage)
    verdicts = [(vote, vote.outcome) for vote in votes if isinstance(vote.outcome, Verdict)]
    middle = sorted((verdict for _, verdict in verdicts), key=lambda verdict: verdict.score)[len(verdicts) // 2]
    agreeing = sum(verdict.success is middle.success for _, verdict in verdicts)
    listed = [
        {"connection": vote.connection, "model": vote.model, "score": verdict.score, "reason": verdict.reason}
        for vote, verdict in verdicts
    ]
    return replace(
        middle,
        fingerprint=fingerprint,
        reason=f"{agreeing} of {len(verdicts)} judges agree. {middle.reason}",
        metadata={**middle.metadata, "judges": listed, "judgesAgreement": agreeing / len(verdicts)},
        usage=usage,
    )


def _usage(votes: Sequence[JudgeVote]) -> Usage | None:
    spent = [vote.outcome.usage for vote in votes if vote.outcome.usage is not None]
    models = dict.fromkeys(part.model for part in spent if part.model is not None)
    return replace(reduce(add, spent), model=", ".join(models) or None) if spent else None


def jury_fingerprint(of_votes: Sequence[str]) -> str:
    """Return the fingerprint of judges together; their order makes no difference."""
    return hashlib.sha256(json.dumps(["jury", *sorted(of_votes)]).encode()).hexdigest()
