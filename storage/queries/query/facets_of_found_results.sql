-- How many of the traces that were found were judged by which rule and with which verdict, as in `facets_of_found_traces`. Where
-- something is asked of a result (see `traces_like`), it is that of such a result.
WITH results AS (
    SELECT DISTINCT
        f.number,
        r."rule",
        CASE
            WHEN e.outcome = 'scored' AND e.passed THEN 'passed'
            WHEN e.outcome = 'scored' AND NOT e.passed THEN 'failed'
            WHEN e.outcome = 'failed' THEN 'broken'
            WHEN e.outcome = 'skipped' THEN 'skipped'
        END AS verdict
    FROM evaluation AS e
    JOIN found_traces AS f ON f.trace_id = e.trace_id AND f.tenant = e.tenant
    JOIN rule_revision AS r USING (revision)
    WHERE e.seq BETWEEN $first_seq AND $last_seq
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
        AND (r.rule_id = $rule OR r."rule" = $rule) -- rule
        AND e.outcome = $outcome -- outcome
        AND e.passed = $passed -- passed
),
told AS (
    SELECT DISTINCT 'rule' AS facet, "rule" AS "value", number FROM results
    UNION ALL
    SELECT DISTINCT 'verdict', verdict, number FROM results WHERE verdict IS NOT NULL
)
SELECT facet, "value", count(*) AS traces, count(*) OVER (PARTITION BY facet) AS many
FROM told
GROUP BY facet, "value"
QUALIFY row_number() OVER (PARTITION BY facet ORDER BY count(*) DESC, "value") <= $most
ORDER BY facet, traces DESC, "value";
