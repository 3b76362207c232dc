-- Projects that were made: of a tenant and of none; NULL for all.
SELECT tenant, "name", project_id, epoch_ns(created_at) FROM project WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
