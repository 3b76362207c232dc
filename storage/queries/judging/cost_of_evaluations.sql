-- Return the average cost of the latest evaluations by a kind of evaluator that called a judge, and their number.
SELECT count(*), avg(input_tokens + output_tokens), avg(cost_usd)
FROM (
    SELECT e.input_tokens, e.output_tokens, e.cost_usd
    FROM evaluation AS e
    WHERE e.judge_calls > 0 AND e.outcome = 'scored' -- an attempt that failed may have cost nothing
        AND ($tenant::VARCHAR IS NULL OR e.tenant IN ($tenant, ''))
        AND e.revision IN (SELECT revision FROM rule_revision WHERE evaluator = $evaluator)
    ORDER BY e.number DESC
    LIMIT $rows
);
