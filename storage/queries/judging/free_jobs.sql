-- Let jobs be claimed again whose lease has ended.
UPDATE job SET "state" = 'ready', claimed_until = NULL
WHERE "state" = 'claimed' AND claimed_until < make_timestamp($now_us);
