-- Select results that meet a rule's "after" condition.
SELECT e.tenant, e.trace_id, e.span_id, e.session_id
FROM evaluations AS e
WHERE $after_rule::VARCHAR IN (e.rule, e.rule_id) AND NOT e.superseded AND e.outcome = $after_outcome::VARCHAR
    AND ($after_passed::BOOLEAN IS NULL OR e.passed = $after_passed::BOOLEAN)
    AND ($after_below::DOUBLE IS NULL OR e.score < $after_below::DOUBLE)
    AND ($after_at_least::DOUBLE IS NULL OR e.score >= $after_at_least::DOUBLE);
