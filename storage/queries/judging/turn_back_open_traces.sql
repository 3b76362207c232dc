-- Set future arrival times of open traces to now, after the clock was set back between two starts.
UPDATE trace_open
SET first_at = least(first_at, make_timestamp($now_us)), last_at = least(last_at, make_timestamp($now_us))
WHERE last_at > make_timestamp($now_us);
