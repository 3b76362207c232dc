-- Insert traces whose session is decided once it has settled.
INSERT INTO session_open BY NAME
SELECT tenant, session_id, trace_id, make_timestamp(last_us) AS last_at, seq AS last_seq, was_settled, 0 AS rested_us
FROM opened_sessions;
