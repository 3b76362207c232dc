-- Insert an alert event, unless it is stored already.
INSERT INTO alert_event BY NAME
SELECT
    $tenant AS tenant,
    $event_id AS event_id,
    $project AS project,
    $type AS "type",
    $alert_id AS alert_id,
    $document AS "document",
    make_timestamp($at_us::BIGINT) AS created_at
WHERE NOT EXISTS (SELECT 1 FROM alert_event AS e WHERE e.tenant = $tenant AND e.event_id = $event_id);
