"""Registry of all evaluators by name."""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from evaluators import (
    code_judge,
    retrieval,
    run_metrics,
    structure,
    text,
    tool_criteria,
    tool_expectations,
    tool_results,
    tool_steps,
    tool_validity,
    trajectories,
)
from evaluators.errors import BadConfiguration
from evaluators.evaluator import Evaluator, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges import agents, conversation, criteria, grounding, pairwise, relevance, tool_quality

_FAMILIES: Final = (
    text.KINDS,
    structure.KINDS,
    retrieval.KINDS,
    tool_validity.KINDS,
    tool_expectations.KINDS,
    tool_results.KINDS,
    tool_criteria.KINDS,
    tool_steps.KINDS,
    run_metrics.KINDS,
    trajectories.KINDS,
    criteria.KINDS,
    grounding.KINDS,
    relevance.KINDS,
    agents.KINDS,
    tool_quality.KINDS,
    conversation.KINDS,
    pairwise.KINDS,
    code_judge.KINDS,
)
KINDS: Final[Mapping[str, EvaluatorKind[Any]]] = {kind.name: kind for family in _FAMILIES for kind in family}


def kind_of(name: str) -> EvaluatorKind[Any]:
    """Return the kind of that name.

    Raises:
        BadConfiguration: there is none; the message says which there are.

    """
    kind = KINDS.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, KINDS, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise BadConfiguration(f"there is no evaluator {name!r}; {meant}there are: {', '.join(sorted(KINDS))}")
    return kind


def build(
    name: str,
    configuration: Mapping[str, Any],
    judge: Judge | None = None,
    *,
    additions: Mapping[str, Any] = MappingProxyType({}),
) -> Evaluator:
    """Return the evaluator of that kind with that configuration.

    `additions` is what a rule adds to every case: scores depend on it, so it is part of the fingerprint.

    Raises:
        BadConfiguration: there is no such kind, or the configuration cannot be used; the message has the remedy.

    """
    return kind_of(name).build(configuration, judge, additions=additions)
