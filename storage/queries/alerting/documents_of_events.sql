-- Return the documents of events.
SELECT event_id, "document"
FROM alert_event
WHERE event_id IN (SELECT unnest($event_ids::VARCHAR[]));
