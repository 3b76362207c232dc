"""Cache of a jury's votes if another of its judges failed, so that a retry of the job calls only the missing judges."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from collector.live.jobs.work.connection_queue import JobAnswer
from evaluators.outcome import Failure

_MOST_BYTES: Final = 16 << 20
"""The size of all votes that are kept. A guess: some thousand jobs with usual reasons."""


class _JuryVotes(NamedTuple):
    case: bytes  # digest of the judged case
    answers: Mapping[str, JobAnswer]  # by connection
    size: int


class KeptVotes:
    """Votes by job, in memory: after a restart all judges are called again. For one event loop."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._votes: OrderedDict[int, _JuryVotes] = OrderedDict()
        self._size = 0

    def of(self, job_id: int, case: Mapping[str, Any]) -> Mapping[str, JobAnswer]:
        """Return the votes about this case by connection. Their usage is counted already."""
        votes = self._votes.get(job_id)
        return votes.answers if votes is not None and votes.case == _digest(case) else {}

    def keep(self, job_id: int, case: Mapping[str, Any], answers: Mapping[str, JobAnswer]) -> None:
        """Keep the votes of a jury that will be called again; without room, drop the oldest of other jobs."""
        self.drop(job_id)
        votes = {key: _paid(each) for key, each in answers.items() if not isinstance(each.outcome, Failure)}
        size = sum(len(json.dumps(each.outcome.to_document())) for each in votes.values())
        if votes and size <= self._most_bytes:
            self._votes[job_id] = _JuryVotes(_digest(case), votes, size)
            self._size += size
        while self._size > self._most_bytes:
            self.drop(next(iter(self._votes)))

    def drop(self, job_id: int) -> None:
        """Drop the votes about a job that is done."""
        votes = self._votes.pop(job_id, None)
        self._size -= 0 if votes is None else votes.size


def _paid(answer: JobAnswer) -> JobAnswer:
    """Return a vote without its usage, which is counted for the attempt that got it."""
    usage = answer.outcome.usage
    if usage is None:
        return answer
    paid = replace(usage, calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0, latency_ms=0.0)
    return answer._replace(outcome=replace(answer.outcome, usage=paid))


def _digest(case: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).digest()
