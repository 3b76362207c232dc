-- Record how long sessions were quiet when they were decided; rules with a longer wait decide later.
UPDATE session_open SET rested_us = $settle_us
FROM rested_sessions AS r
WHERE session_open.tenant = r.tenant AND session_open.session_id = r.session_id
    AND session_open.last_seq BETWEEN $first AND $last;
