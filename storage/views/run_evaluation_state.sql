-- State of the evaluations of runs: how many are open, why one of them waits, and the names whose latest evaluation
-- failed, except cancelled ones.
CREATE OR REPLACE VIEW run_evaluation_state AS
SELECT
    run_id,
    sum("open") AS "open",
    min(waits) AS waits,
    coalesce(list("name" ORDER BY "name") FILTER (latest = 'failed'), []) AS failed
FROM (
    SELECT
        run_id,
        "name",
        count(*) FILTER ("state" IN ('waiting', 'running')) AS "open",
        min("name" || ': ' || error) FILTER ("state" IN ('waiting', 'running')) AS waits,
        arg_max("state", (created_at, evaluation_id)) FILTER ("state" != 'cancelled') AS latest
    FROM run_evaluation
    GROUP BY run_id, "name"
)
GROUP BY run_id;
