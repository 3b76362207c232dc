"""The words for outcomes of evaluations, for pages, commands and tools; "failed" is a verdict that does not pass."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

PASSED: Final = "passed"
NOT_PASSED: Final = "failed"
NO_VERDICT: Final = "no verdict"
SKIPPED: Final = "skipped"
GAVE_UP: Final = "gave up"

RESULT_WORDS: Final[Mapping[str, str]] = {"not_passed": NOT_PASSED, "failed": NO_VERDICT, "not_evaluated": NO_VERDICT}
"""Words by outcome of an evaluation, or of an item of a run; other outcomes are shown by their names."""

JOB_WORDS: Final[Mapping[str, str]] = {"failed": GAVE_UP}
"""Words by state of a job; other states are shown by their names."""

OutcomeName: TypeAlias = Annotated[
    Literal["scored", "failed", "skipped"],
    Field(description="failed: there is no verdict. A verdict that does not pass is scored, and `passed` is false."),
]
JobState: TypeAlias = Annotated[
    Literal["waiting", "held", "ready", "claimed", "scored", "failed", "skipped", "superseded"],
    Field(description="failed: it gave up, and there is no verdict."),
]


def result_word(outcome: str, passed: bool | None = None) -> str:  # noqa: FBT001 - a filter of templates
    """Return the word for a result; for a score, that of its verdict."""
    if outcome == "scored" and passed is not None:
        return PASSED if passed else NOT_PASSED
    return RESULT_WORDS.get(outcome, outcome.replace("_", " "))


def job_word(state: str) -> str:
    """Return the word for the state of a job."""
    return JOB_WORDS.get(state, state)
