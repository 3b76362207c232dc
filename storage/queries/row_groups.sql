-- The row groups of a table in their order: how many rows each has, and which blocks of the file hold some of it.
SELECT rows, blocks
FROM (
    SELECT
        row_group_id,
        sum("count") FILTER (WHERE column_path = '[0]')::BIGINT AS rows,
        list_distinct(flatten(list(list_append(additional_block_ids, block_id)) FILTER (WHERE persistent))) AS blocks
    FROM pragma_storage_info($table)
    GROUP BY row_group_id
)
ORDER BY row_group_id;
