"""The executors that evaluate the targets that rules match."""

from typing import Final

from collector.live.active import ExecutorKind
from evaluators import code_judge
from evaluators.errors import EvaluationError
from evaluators.registry import kind_of
from rules.rule import Rule

_CODE: Final = frozenset(kind.name for kind in code_judge.KINDS)


def executor_kind_of(rule: Rule) -> ExecutorKind:
    """Return the executor kind of a rule's evaluator.

    An optional judge is called if the rule names a connection. An evaluator that this version does not know, or
    cannot use like this, is a check, which fails and says why.
    """
    if rule.evaluator in _CODE:
        return "code"
    try:
        kind = kind_of(rule.evaluator)
        need = kind.judge(kind.settings(rule.configuration))
    except EvaluationError:
        return "check"
    return "judge" if need == "always" or (need == "optional" and rule.connection is not None) else "check"
