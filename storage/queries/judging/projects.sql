-- Return created projects of a tenant, plus shared ones (tenant ''). NULL returns those of all tenants.
SELECT tenant, "name", project_id, epoch_ns(created_at) FROM project WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
