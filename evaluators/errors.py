"""Failures of evaluations. None of these is a statement about the quality of the judged output.

EvaluationError
├── BadConfiguration   the evaluator cannot be built like this
├── BadCase            the test case lacks, or malforms, what the evaluator reads
├── NotCaptured        the trace did not record what the evaluator reads; the outcome is skipped
│   └── NotRead        the trace is too long for what the evaluator reads to be read whole; skipped as well
├── InTrace            the test case lacks what the evaluator reads, and its trace, not read yet, may supply it
├── BadReply           the judge answered, and the answer cannot be used
├── ModelCallFailed    the judge did not answer (chat/client.py, which raises it)
├── ProgramFailed      the code judge gave no output that counts (process.py)
├── OverBudget         what judging may cost is spent; no further request is sent
├── HeldBack           the budget is reserved for requests of a process that ended; later it is released
├── Stopped            its rule was switched off or deleted meanwhile; nothing more is asked
└── TooMuchToCompare   comparing would take too long
"""

from collections.abc import Sequence
from typing import Literal


class EvaluationError(Exception):
    """An evaluation that ends without a verdict; `kind` is that of its `Failure`."""

    kind: str = "evaluator_error"
    usage: object = None  # an `evaluators.outcome.Usage`: the usage until then, if a judge was called


class BadConfiguration(EvaluationError):
    """The configuration cannot be used; the message names each key and what would be right.

    `parts` has the keys that are wrong, "" for the whole, each with its message; none if no key is wrong.
    """

    kind = "bad_configuration"

    def __init__(self, message: str, *, parts: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.parts = tuple(parts)


class BadCase(EvaluationError):
    """The test case cannot be judged by this evaluator; the message names the key."""

    kind = "bad_case"


class NotCaptured(EvaluationError):
    """The trace did not record the evaluator's input. The evaluation is skipped, not failed."""

    kind = "not_captured"

    def __init__(self, what: str, hint: object = None) -> None:
        super().__init__(f"not captured: {what}" + (f" ({hint})" if isinstance(hint, str) and hint else ""))


class NotRead(NotCaptured):
    """The trace or session is too long to be read whole, and the evaluator needs all spans."""

    kind = "not_read"

    def __init__(self, what: str, spans: object) -> None:
        EvaluationError.__init__(
            self, f"not read: {what} of all {spans} spans, more than are read of one trace or session"
        )


class InTrace(EvaluationError):
    """The test case lacks a part that its trace, which was not read yet, may supply; the caller reads it."""

    kind = "in_trace"

    def __init__(self, what: str) -> None:
        super().__init__(f"in the trace, which was not read: {what}")


class TooMuchToCompare(EvaluationError):
    """The comparison would take more than seconds; the message has the amount of data."""

    kind = "too_large"


class BadReply(EvaluationError):
    """The judge's answer cannot be used: fields are missing, malformed or out of range."""

    kind = "bad_reply"


class OverBudget(EvaluationError):
    """The daily budget of judging is spent; the message names the budget, and the time of its renewal."""

    kind = "over_budget"


class HeldBack(EvaluationError):
    """The rest of the budget is reserved for requests of a process that ended; retry after `retry_after_s`."""

    kind = "budget_held"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Stopped(EvaluationError):
    """The evaluation is cancelled; `kind` says whether its rule was switched off or deleted."""

    def __init__(self, kind: Literal["rule_disabled", "rule_deleted"], message: str) -> None:
        super().__init__(message)
        self.kind = kind
