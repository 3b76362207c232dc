-- Remember blocks that are to be rubbed out.
INSERT INTO erased_block
SELECT block_id
FROM incoming_blocks;
