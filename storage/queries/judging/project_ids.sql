-- Return the ids of created projects, by tenant and name.
SELECT tenant, "name", project_id FROM project WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
