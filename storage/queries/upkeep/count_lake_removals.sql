-- Count the traces that a deletion has found in the lake alone, and their spans.
UPDATE deletion SET
    traces = traces + (SELECT count(*) FROM lake_leaving ANTI JOIN lake_removal USING (tenant, trace_id)),
    spans = spans + coalesce((SELECT sum(l.spans) FROM lake_leaving AS l ANTI JOIN lake_removal USING (tenant, trace_id)), 0)
WHERE deletion_id = $deletion_id;
