-- Stores the key of a connection as it is encrypted with another key of encryption, unless it has changed.
UPDATE llm_connection SET secret = $sealed::BLOB
WHERE connection_id = $connection_id AND secret = $before::BLOB
