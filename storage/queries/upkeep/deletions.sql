-- Return deletions, latest first. Filters that are not set match all: tenant, id, and whether the deletion is in
-- progress.
SELECT
    deletion_id,
    tenant,
    trace_id,
    project,
    session_id,
    user_id,
    epoch_ns(before_time) AS before_ns,
    filters,
    "state",
    after_batch,
    until_batch,
    began_batch,
    wrapped,
    traces,
    spans,
    epoch_ns(created_at) AS created_at_ns,
    created_by,
    epoch_ns(rows_gone_at) AS rows_gone_at_ns,
    epoch_ns(finished_at) AS finished_at_ns
FROM deletion
WHERE ($tenant IS NULL OR tenant = $tenant)
    AND ($deletion_id IS NULL OR deletion_id = $deletion_id)
    AND (NOT $only_open OR "state" <> 'done')
ORDER BY created_at DESC, deletion_id
LIMIT $most OFFSET $skip;
