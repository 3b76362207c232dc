-- Record when a key was used last.
UPDATE api_key SET last_used_at = make_timestamp($used_us) WHERE key_id = $key_id;
