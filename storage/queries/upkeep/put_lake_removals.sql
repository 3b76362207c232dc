-- Note that the lake has to lose traces that leave the database: all of them, or those of which it has the only rows then.
INSERT INTO lake_removal BY NAME
SELECT
    tenant,
    trace_id,
    first_batch,
    last_batch,
    nextval('write_number') AS last_write,
    (SELECT last_number FROM result_state) AS last_result
FROM lake_leaving
WHERE (EXISTS (SELECT 1 FROM lake_position) OR EXISTS (SELECT 1 FROM lake_boundary)) -- of an earlier name
    AND ($all OR first_batch < (SELECT max(first_batch) FROM lake_boundary));
