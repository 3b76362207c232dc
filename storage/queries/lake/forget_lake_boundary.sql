-- Forget what moved to the lake: all of it, or the boundary of the name in the lake under which nothing was published.
DELETE FROM lake_boundary
WHERE $all
    OR directory_id IN (SELECT directory_id FROM lake_position)
    AND NOT EXISTS (SELECT 1 FROM lake_position WHERE table_name = 'trace_part' AND published > 0);
