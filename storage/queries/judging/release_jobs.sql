-- Let all jobs be claimed again that a process which has ended had claimed, and none wait longer than anything may.
UPDATE job SET
    "state" = 'ready',
    claimed_until = NULL,
    not_before = CASE WHEN not_before > make_timestamp($latest_us) THEN make_timestamp($latest_us) ELSE not_before END
WHERE "state" = 'claimed' OR not_before > make_timestamp($latest_us);
