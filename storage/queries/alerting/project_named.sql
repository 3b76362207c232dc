-- Return the name of the project with this name or id.
SELECT "name"
FROM project
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND (project_id = $project OR "name" = $project)
ORDER BY "name" = $project DESC
LIMIT 1;
