-- Return the block size of the file, the number of its blocks, and how many of them are free.
SELECT block_size, total_blocks, free_blocks
FROM pragma_database_size()
WHERE database_name = $catalog;
