-- How large the blocks of the file are, how many it has, and how many of them are free.
SELECT block_size, total_blocks, free_blocks
FROM pragma_database_size()
WHERE database_name = $catalog;
