-- The project that the latest result of a rule is about, and what the rule was called last. Of traces that have left, the
-- day is known.
WITH results AS (
    SELECT project, max(created_at) AS last_at
    FROM evaluation
    WHERE tenant = $tenant AND revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    GROUP BY project
    UNION ALL
    SELECT project, max(day)::TIMESTAMP AS last_at
    FROM evaluation_day
    WHERE tenant = $tenant AND revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    GROUP BY project
)
SELECT project, (SELECT arg_max("rule", revision) FROM rule_revision WHERE rule_id = $rule_id) AS "rule"
FROM results
ORDER BY last_at DESC, project
LIMIT 1;
