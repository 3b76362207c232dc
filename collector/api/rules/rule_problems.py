"""Why rules judge nothing: their judge cannot be asked, or the rule that they go by has no results."""

from collector.api.base.context import Context
from collector.api.documents.rule_documents import ProblemOf
from collector.live.active import ActiveRule


def problems_of(here: Context) -> ProblemOf:
    """What tells of a rule why it judges nothing, and what to do; None where it can."""

    def problem_of(active: ActiveRule) -> str | None:
        return here.judging.judges.problem_of(active) or here.rules.problem_of(active)

    return problem_of
