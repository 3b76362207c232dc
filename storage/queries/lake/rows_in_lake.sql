-- Return what the lake must have for what moved there to be complete: for each name of this directory the numbers up to
-- which its rows were published, by table; of an earlier name any.
SELECT b.directory_id, coalesce(p.table_name, 'trace_part') AS table_name, coalesce(p.published, 1) AS published
FROM lake_boundary AS b
LEFT JOIN lake_position AS p ON p.directory_id = b.directory_id
WHERE b.first_batch > 0 AND coalesce(b.traces + b.spans, 1) > 0;
