-- Totals of runs over their items. The view `runs` is built from it; totals of some runs use its text.
CREATE OR REPLACE VIEW run_sums AS
SELECT
    i.tenant,
    i.run_id,
    count(*) AS items,
    count(DISTINCT i.item_key) AS cases,
    count(*) FILTER (o.outcome = 'passed') AS passed,
    count(*) FILTER (o.outcome = 'not_passed') AS not_passed,
    count(*) FILTER (o.outcome = 'error') AS errors,
    count(*) FILTER (o.outcome = 'not_evaluated') AS not_evaluated,
    count(*) FILTER (o.outcome = 'unjudged') AS unjudged,
    TRY_CAST(sum(i.tokens_in) AS BIGINT) AS tokens_in,
    TRY_CAST(sum(i.tokens_out) AS BIGINT) AS tokens_out,
    sum(i.cost_usd) AS cost_usd,
    count(i.cost_usd) AS priced,
    count(*) FILTER (i.tokens_in IS NOT NULL OR i.tokens_out IS NOT NULL) AS tokenized,
    avg(i.latency_ms) AS latency_ms,
    quantile_cont(i.latency_ms, 0.95) AS latency_p95_ms
FROM run_item AS i
INNER JOIN outcome_of_run_item AS o USING (run_id, item_number)
GROUP BY i.tenant, i.run_id;
