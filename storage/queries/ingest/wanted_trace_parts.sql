-- What the parts of the wanted traces add up to. Their keys alone are looked at in all parts; of those that have one,
-- the view `trace_roll_up` is asked by its text.
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
