"""Rules that depend on the results of other rules: these must exist, and no rule may wait for itself."""

from collections.abc import Collection, Iterable, Sequence

from collector.live.active import ActiveRule
from rules.rule import GOES_BY

MOST_NAMED = 20
"""Rules that a problem names."""


def leaders(follower: ActiveRule, among: Iterable[ActiveRule]) -> list[ActiveRule]:
    """Return the rules that `follower` may mean by `after`: of its tenant or of none, and about its project.

    A rule about all projects fits any project, whether it is the follower or the leader.
    """
    after = follower.rule.after
    if after is None:
        return []
    return [
        each
        for each in among
        if each.tenant in {follower.tenant, ""}
        and after.rule in {each.rule_id, each.rule.name}
        and (None in {each.rule.project, follower.rule.project} or each.rule.project == follower.rule.project)
    ]


def wrong_with_order(follower: ActiveRule, others: Collection[ActiveRule], *, in_force: bool = False) -> str | None:
    """Return why a rule cannot depend on the one that it names: missing, of another target, or waiting for this one.

    With `in_force`, also report that the named rule is disabled; else it may be enabled later.
    """
    after = follower.rule.after
    if after is None:
        return None
    every = [follower, *others]
    candidates = leaders(follower, every)
    if not candidates:
        names = sorted({each.rule.name for each in others if each.tenant in {follower.tenant, ""}})
        return f"there is no rule {after.rule!r} to follow; there are: {_listed(names) or 'none'}"
    if circle := _circle(follower, every):
        return f"rules would wait for each other: {' follows '.join(map(repr, circle))}"
    fitting = GOES_BY[follower.rule.target]
    if all(each.rule.target not in fitting for each in candidates):
        problem = f"a rule about {follower.rule.target} can only follow results about {' or '.join(fitting)}"
        return f"{problem}, and {after.rule!r} is about {candidates[0].rule.target}"
    if in_force and not any(each.rule.enabled for each in candidates):
        return f"the rule {after.rule!r} that it follows is disabled; enable it"
    return None


def _circle(start: ActiveRule, every: Sequence[ActiveRule]) -> list[str]:
    """Return the names in a cycle of rules that wait for each other, from one back to itself; [] if there is none."""
    paths, seen = [[start]], set[int]()
    while paths:
        path = paths.pop()
        for leader in leaders(path[-1], every):
            if leader is start:
                return [each.rule.name for each in (*path, start)]
            if id(leader) not in seen:
                seen.add(id(leader))
                paths.append([*path, leader])
    return []


def _listed(names: Sequence[str]) -> str:
    return ", ".join((*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])))
