-- Return the traces that are pinned.
SELECT DISTINCT tenant, trace_id
FROM trace_pin;
