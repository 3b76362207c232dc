-- Return the project of a rule's latest result, and the rule's latest name. Of expired traces only the day is known.
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
