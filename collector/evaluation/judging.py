"""Evaluators with the judge that their configuration names, else the one that the command line names."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from collector.evaluation.batch import Make
from collector.settings_loading import environment_variable
from evaluators.chat.settings import Judges
from evaluators.evaluator import Evaluator
from evaluators.registry import build

JUDGE_KEY: Final = "judge"
"""The key of a configuration under which its judge is; no evaluator has a key of that name."""


@asynccontextmanager
async def judged_evaluators(default: Mapping[str, Any] | None) -> AsyncIterator[Make]:
    """What builds evaluators; the judges that they share are open until the end, in the event loop that is running."""
    async with Judges(environment_variable) as judges:

        def make(name: str, configuration: Mapping[str, Any]) -> Evaluator:
            told = {key: value for key, value in configuration.items() if key != JUDGE_KEY}
            document = configuration.get(JUDGE_KEY, default)
            return build(name, told, None if document is None else judges.judge(document))

        yield make
