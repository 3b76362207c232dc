-- Forget the boundary of the name in the lake if nothing was published under it.
DELETE FROM lake_boundary
WHERE directory_id IN (SELECT directory_id FROM lake_position)
    AND NOT EXISTS (SELECT 1 FROM lake_position WHERE table_name = 'trace_part' AND published > 0);
