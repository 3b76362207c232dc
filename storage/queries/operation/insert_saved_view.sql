-- Add a saved view, unless the tenant has one of that name or as many as it may have; the id says that it was added.
INSERT INTO saved_view BY NAME
SELECT
    $tenant AS tenant,
    $view_id AS view_id,
    $name AS "name",
    $project AS project,
    $query AS query,
    1 AS "version",
    $created_by AS created_by,
    make_timestamp($now_us::BIGINT) AS created_at,
    make_timestamp($now_us::BIGINT) AS updated_at
WHERE
    NOT EXISTS (SELECT 1 FROM saved_view AS v WHERE v.tenant = $tenant AND v.name = $name)
    AND (SELECT count(*) FROM saved_view AS v WHERE v.tenant = $tenant) < $most
RETURNING view_id;
