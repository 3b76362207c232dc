-- Store a connection's key, encrypted with another encryption key, unless the connection has changed.
UPDATE llm_connection SET secret = $sealed::BLOB
WHERE connection_id = $connection_id AND secret = $before::BLOB
