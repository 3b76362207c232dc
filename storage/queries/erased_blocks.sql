-- The blocks that are to be rubbed out.
SELECT DISTINCT block_id
FROM erased_block;
