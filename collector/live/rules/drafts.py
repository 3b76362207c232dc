"""A rule as what is stored of it."""

import json

from rules.conditions import label
from rules.rule import Rule
from storage.judging.rule_change import Origin, RuleDraft


def draft_of(rule: Rule, *, tenant: str, origin: Origin, file: str | None, text: str) -> RuleDraft:
    """What is stored of a rule; `text` is how it was written."""
    document = {key: value for key, value in rule.document().items() if key != "enabled"}
    return RuleDraft(
        tenant=tenant,
        project=rule.project,
        name=rule.name,
        origin=origin,
        file=file,
        text=text,
        enabled=rule.enabled,
        digest=rule.revision,
        target=rule.target,
        evaluator=rule.evaluator,
        document=json.dumps(document, ensure_ascii=False),
        clauses=tuple(map(label, rule.clauses)),
    )
