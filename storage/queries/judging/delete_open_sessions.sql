-- Delete open sessions that all rules have decided on, whose traces' last spans lie between two numbers.
DELETE FROM session_open
USING rested_sessions AS r
WHERE session_open.tenant = r.tenant AND session_open.session_id = r.session_id
    AND session_open.last_seq BETWEEN $first AND $last;
