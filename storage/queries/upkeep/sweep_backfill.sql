-- Delete backfills that ended before a moment.
DELETE FROM backfill
WHERE "state" <> 'running' AND updated_at < make_timestamp($before_us);
