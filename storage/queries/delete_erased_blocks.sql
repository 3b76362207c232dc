-- Forget the blocks that are rubbed out.
DELETE FROM erased_block
WHERE block_id IN (SELECT block_id FROM incoming_blocks);
