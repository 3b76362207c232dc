-- The names of attributes of the latest spans, the most frequent first, of a tenant and of none (NULL for all).
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
