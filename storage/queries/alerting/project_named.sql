-- The name of the project that is called so, or has this id.
SELECT "name"
FROM project
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND (project_id = $project OR "name" = $project)
ORDER BY "name" = $project DESC
LIMIT 1;
