-- Change a saved view, if it has the version that was looked at and no other has its new name; the id, if so.
UPDATE saved_view
SET
    "name" = $name,
    project = $project,
    query = $query,
    "version" = "version" + 1,
    updated_at = make_timestamp($now_us::BIGINT)
WHERE
    view_id = $view_id
    AND "version" = $version
    AND NOT EXISTS (SELECT 1 FROM saved_view AS v WHERE v.tenant = $tenant AND v.name = $name AND v.view_id <> $view_id)
RETURNING view_id;
