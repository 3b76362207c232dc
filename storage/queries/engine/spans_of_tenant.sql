-- Return the spans of one tenant, or of all, that a rule could not be evaluated for.
SELECT seq, 3::UTINYINT AS outcome, NULL::USMALLINT AS clause
FROM looked_at
WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant;
