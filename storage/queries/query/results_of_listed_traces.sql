-- Return the counted results of listed traces and of their spans, by rule and name.
SELECT
    e.tenant,
    e.trace_id,
    r.rule,
    e.name,
    count(*) FILTER (WHERE e.passed) AS passed,
    count(*) FILTER (WHERE NOT e.passed) AS not_passed,
    count(*) FILTER (WHERE e.outcome = 'failed') AS broken,
    avg(e.score) AS score
FROM evaluation AS e
JOIN rule_revision AS r USING (revision)
WHERE e.trace_id IN (SELECT unnest(string_split($trace_ids, ',')))
    AND e.seq BETWEEN $first_seq AND $last_seq
    AND e.session_id IS NULL
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
GROUP BY ALL
ORDER BY r.rule, e.name;
