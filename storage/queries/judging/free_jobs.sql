-- Release jobs whose lease has expired.
UPDATE job SET "state" = 'ready', claimed_until = NULL
WHERE "state" = 'claimed' AND claimed_until < make_timestamp($now_us);
