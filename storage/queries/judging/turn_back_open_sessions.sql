-- Let traces of sessions that seem to have come later than now have come now: the clock was set back between two
-- starts.
UPDATE session_open SET last_at = make_timestamp($now_us) WHERE last_at > make_timestamp($now_us);
