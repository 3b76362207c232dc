-- Return the traces of one tenant, or of all, that a rule could not be evaluated for.
SELECT DISTINCT trace, false AS holds, NULL::USMALLINT AS clause, true AS is_undecided
FROM looked_at
WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant;
