-- The traces of one tenant, or of all, for a rule that could not be asked about them.
SELECT DISTINCT trace, false AS holds, NULL::USMALLINT AS clause, true AS is_undecided
FROM looked_at
WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant;
