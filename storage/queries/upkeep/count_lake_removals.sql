-- Count the traces that a deletion has found in the lake alone.
UPDATE deletion SET
    traces = traces + (SELECT count(*) FROM lake_leaving ANTI JOIN lake_removal USING (tenant, trace_id))
WHERE deletion_id = $deletion_id;
