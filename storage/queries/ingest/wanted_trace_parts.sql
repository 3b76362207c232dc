-- Return the sums of the parts of the selected traces. All parts are searched by key alone; only matching ones are
-- read, by the text of the view `trace_roll_up`.
WITH changed_part AS MATERIALIZED (
    SELECT *
    FROM tracejury.trace_part
    WHERE rowid IN (
        SELECT p.rowid
        FROM tracejury.trace_part AS p
        SEMI JOIN wanted_traces AS w ON w.trace_key = p.trace_key
    )
),
found AS (
    $roll_up
)
SELECT *
FROM found
SEMI JOIN wanted_traces USING (tenant, trace_id);
