-- The spans of one tenant, or of all, for a rule that could not be asked about them.
SELECT seq, 3::UTINYINT AS outcome, NULL::USMALLINT AS clause
FROM looked_at
WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant;
