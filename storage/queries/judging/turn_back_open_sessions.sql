-- Set future arrival times of open sessions' traces to now, after the clock was set back between two starts.
UPDATE session_open SET last_at = make_timestamp($now_us) WHERE last_at > make_timestamp($now_us);
