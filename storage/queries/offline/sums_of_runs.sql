-- Return the sums over the items of some runs, from the text of the view `run_sums`.
WITH run_item AS (
    SELECT *
    FROM tracejury.run_item
    WHERE run_id IN (SELECT unnest($runs::VARCHAR[]))
),
outcome_of_run_item AS (
    SELECT *
    FROM tracejury.outcome_of_run_item
    WHERE run_id IN (SELECT unnest($runs::VARCHAR[]))
)
SELECT * EXCLUDE (tenant)
FROM (
    $run_sums
);
