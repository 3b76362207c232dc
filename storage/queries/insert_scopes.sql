-- Store the scopes of a batch that are not stored yet.
INSERT INTO scope
SELECT *
FROM incoming_scopes
WHERE scope_id NOT IN (SELECT scope_id FROM scope);
