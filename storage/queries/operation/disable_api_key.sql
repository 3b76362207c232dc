-- Disable a key; it stays in the list.
UPDATE api_key SET enabled = FALSE WHERE key_id = $key_id;
