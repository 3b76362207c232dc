-- Insert a connection.
INSERT INTO llm_connection BY NAME SELECT
    $tenant AS tenant,
    $connection_id AS connection_id,
    $name AS "name",
    $origin AS origin,
    $document AS document,
    $secret::BLOB AS secret,
    $version AS "version",
    $created_at::TIMESTAMP AS created_at,
    $updated_at::TIMESTAMP AS updated_at
