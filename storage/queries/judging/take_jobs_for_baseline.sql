-- Let monitors compare with what a backfill has a revision judge of these traces.
UPDATE job SET occasion = 'baseline'
WHERE revision = $revision AND occasion = 'backfill' AND trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
