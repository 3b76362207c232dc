"""Every kind of evaluator by its name."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from evaluators import code_judge, text
from evaluators.errors import BadConfiguration
from evaluators.evaluator import Evaluator, Kind
from evaluators.judges import agents, conversation, criteria, grounding, pairwise, relevance, tool_quality
from evaluators.judging import Judge

KINDS: Final[Mapping[str, Kind[Any]]] = {
    kind.name: kind
    for kind in (
        *text.KINDS,
        *criteria.KINDS,
        *grounding.KINDS,
        *relevance.KINDS,
        *agents.KINDS,
        *tool_quality.KINDS,
        *conversation.KINDS,
        *pairwise.KINDS,
        *code_judge.KINDS,
    )
}


def build(name: str, configuration: Mapping[str, Any], judge: Judge | None = None) -> Evaluator:
    """The evaluator of that kind with that configuration.

    Raises:
        BadConfiguration: there is no such kind, or the configuration cannot be used; the message says what is right.
    """
    kind = KINDS.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, KINDS, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise BadConfiguration(f"there is no evaluator {name!r}; {meant}there are: {', '.join(sorted(KINDS))}")
    return kind.build(configuration, judge)
