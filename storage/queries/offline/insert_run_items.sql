-- Insert items of a run, numbered after the last one.
INSERT INTO run_item BY NAME
SELECT
    n.* EXCLUDE (place),
    $tenant AS tenant,
    $run_id AS run_id,
    $last_item + row_number() OVER (ORDER BY n.place) AS item_number,
    make_timestamp($now_us::BIGINT) AS created_at
FROM new_run_items AS n;
