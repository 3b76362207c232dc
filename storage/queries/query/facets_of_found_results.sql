-- Return the rules and verdicts of matching traces, as in `facets_of_found_spans`. With a filter on results (see
-- `traces_like`), only those results are returned.
SELECT r."rule", e.verdict, list(e.number) AS numbers
FROM (
    SELECT
        f.number,
        e.revision,
        CASE
            WHEN e.outcome = 'scored' AND e.passed THEN 'passed'
            WHEN e.outcome = 'scored' AND NOT e.passed THEN 'failed'
            WHEN e.outcome = 'failed' THEN 'broken'
            WHEN e.outcome = 'skipped' THEN 'skipped'
        END AS verdict
    FROM evaluation AS e
    JOIN found_traces AS f ON f.trace_id = e.trace_id AND f.tenant = e.tenant
    WHERE e.seq BETWEEN $first_seq AND $last_seq
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
        AND e.revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule OR "rule" = $rule) -- rule
        AND e.outcome = $outcome -- outcome
        AND e.passed = $passed -- passed
) AS e
JOIN rule_revision AS r USING (revision)
GROUP BY ALL;
