-- Scopes by their ids.
SELECT *
FROM scope
WHERE scope_id IN (SELECT unnest($ids::UBIGINT[]));
