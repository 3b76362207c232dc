-- Return whether any trace has this project.
SELECT 1 FROM trace_part WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')) AND coalesce(root_project, first_project) = $name LIMIT 1;
