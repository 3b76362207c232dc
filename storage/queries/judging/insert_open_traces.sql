-- Insert the arrivals of traces that have not settled.
INSERT INTO trace_open BY NAME
SELECT
    tenant,
    trace_id,
    make_timestamp($now_us) AS first_at,
    make_timestamp($now_us) AS last_at,
    root_ended,
    span_count,
    last_seq
FROM incoming_arrivals;
