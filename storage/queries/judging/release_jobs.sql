-- Release all jobs that a terminated process had claimed, and cap waiting times.
UPDATE job SET
    "state" = 'ready',
    claimed_until = NULL,
    not_before = CASE WHEN not_before > make_timestamp($latest_us) THEN make_timestamp($latest_us) ELSE not_before END
WHERE "state" = 'claimed' OR not_before > make_timestamp($latest_us);
