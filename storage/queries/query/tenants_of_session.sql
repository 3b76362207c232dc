-- Whose sessions have an id: of a tenant and shared ones, or of all.
SELECT DISTINCT tenant
FROM trace_reading
WHERE session_id = $session_id AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''));
