-- Delete what is on record of deletions that were done before a moment.
DELETE FROM deletion
WHERE "state" = 'done' AND finished_at < make_timestamp($before_us);
