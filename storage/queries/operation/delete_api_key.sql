-- A key that is forgotten.
DELETE FROM api_key WHERE key_id = $key_id;
