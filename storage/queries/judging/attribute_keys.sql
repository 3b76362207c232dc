-- Return the attribute names of the latest spans, most frequent first, of a tenant, plus shared ones (tenant ''). NULL
-- reads all tenants.
SELECT "key"
FROM (
    SELECT unnest(map_keys(attributes)) AS "key"
    FROM span
    WHERE seq IN (
        SELECT seq
        FROM span
        WHERE $tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')
        ORDER BY seq DESC
        LIMIT $spans
    )
)
GROUP BY "key"
ORDER BY count(*) DESC, "key"
LIMIT $keys;
