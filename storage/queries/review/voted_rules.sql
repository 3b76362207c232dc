-- Return the rules with results that reviewers of a tenant voted on, with the project.
SELECT DISTINCT r.rule_id, e.project
FROM annotation AS a
INNER JOIN evaluation AS e
    ON e.tenant = a.tenant
    AND e.trace_id = a.trace_id
    AND e.span_id IS NOT DISTINCT FROM a.span_id
    AND e.session_id IS NOT DISTINCT FROM a.session_id
INNER JOIN rule_revision AS r ON r.revision = e.revision
WHERE a.tenant = $tenant AND a.name = $name AND list_contains($sources, a.source) AND e.passed IS NOT NULL
ORDER BY ALL
LIMIT $rows;
