-- Record that deletions have no bytes left in the file.
UPDATE deletion SET
    "state" = 'done',
    finished_at = make_timestamp($now_us)
WHERE "state" = 'erasing' AND deletion_id IN (SELECT unnest($deletion_ids::VARCHAR[]));
