-- Append entries to the audit log, in their order.
INSERT INTO audit
SELECT
    (SELECT coalesce(max(audit_id), 0) FROM audit) + place AS audit_id,
    make_timestamp(at_us),
    key_id,
    key_name,
    tenant,
    address,
    "method",
    "path",
    status,
    detail,
    request_id,
    times
FROM incoming_audit;
