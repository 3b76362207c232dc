-- Delete a key.
DELETE FROM api_key WHERE key_id = $key_id;
