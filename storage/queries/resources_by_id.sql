-- Resources by their ids.
SELECT *
FROM resource
WHERE resource_id IN (SELECT unnest($ids::UBIGINT[]));
