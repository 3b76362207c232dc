-- Leave out rows of these traces.
INSERT INTO lake_removal
SELECT tenant, trace_id, 0, 9223372036854775807, last_write, 9223372036854775807
FROM traces_left_out;
