-- Return traces with a matching current evaluation, of themselves or of a span, newest first.
WITH judged AS (
    SELECT tenant, trace_id
    FROM evaluation
    WHERE ($tenant IS NULL OR tenant IN ($tenant, ''))
        AND ($project IS NULL OR project = $project)
        AND ($passed IS NULL OR passed = $passed)
        AND ($outcome IS NULL OR outcome = $outcome)
        AND ($rule IS NULL OR revision IN (
            SELECT revision FROM rule_revision WHERE rule_id = $rule OR rule = $rule
        ))
        AND job_id NOT IN (SELECT job_id FROM superseded)
)
SELECT tenant, trace_id
FROM trace_part
SEMI JOIN judged USING (tenant, trace_id)
WHERE ($tenant IS NULL OR tenant IN ($tenant, ''))
GROUP BY tenant, trace_id
ORDER BY min(start_time) DESC, trace_id, tenant
LIMIT $limit OFFSET $offset;
