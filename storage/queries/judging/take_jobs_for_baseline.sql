-- Mark a backfill's jobs of these traces as a baseline for monitors.
UPDATE job SET occasion = 'baseline'
WHERE revision = $revision AND occasion = 'backfill' AND trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
