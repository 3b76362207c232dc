-- Return pinned traces with all reasons, latest pin first.
SELECT tenant, trace_id, why, epoch_us(pinned_at) * 1000
FROM trace_pin
ORDER BY pinned_at DESC, tenant, trace_id, why
LIMIT $pins;
