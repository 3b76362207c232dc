-- Store what traces mean, with what their parts add up to, how many spans the sums are of and the earliest edition that
-- read one of these.
INSERT INTO trace_reading BY NAME
SELECT
    i.* EXCLUDE (start_time),
    p.* EXCLUDE (tenant, trace_id, span_count, first_batch, last_batch),
    p.span_count AS stored_span_count,
    c.count_all AS span_count,
    c.edition_min AS edition
FROM incoming_traces AS i
JOIN incoming_parts AS p ON p.tenant = i.tenant AND p.trace_id = i.trace_id
JOIN incoming_counts AS c ON c.tenant = i.tenant AND c.trace_id = i.trace_id;
