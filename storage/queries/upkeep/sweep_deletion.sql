-- Delete the records of deletions that finished before a moment.
DELETE FROM deletion
WHERE "state" = 'done' AND finished_at < make_timestamp($before_us);
