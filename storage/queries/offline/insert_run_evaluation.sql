-- Insert an evaluation of the items of a run.
INSERT INTO run_evaluation BY NAME
SELECT
    $tenant AS tenant,
    $run_id AS run_id,
    $evaluation_id AS evaluation_id,
    $evaluator AS evaluator,
    $name AS "name",
    $configuration AS configuration,
    $connection AS "connection",
    'waiting' AS "state",
    $created_by AS created_by,
    make_timestamp($now_us::BIGINT) AS created_at;
