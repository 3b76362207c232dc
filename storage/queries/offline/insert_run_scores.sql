-- Insert scores of run items, numbered after the last one.
INSERT INTO run_score BY NAME
SELECT
    n.* EXCLUDE (place),
    $tenant AS tenant,
    $run_id AS run_id,
    $evaluation_id AS evaluation_id,
    $last_score + row_number() OVER (ORDER BY n.place) AS score_number,
    make_timestamp($now_us::BIGINT) AS created_at
FROM new_run_scores AS n;
