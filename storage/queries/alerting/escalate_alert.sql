-- Escalate an alert that has not recovered, and withdraw its acknowledgement. Returns its id, or no row.
UPDATE alert
SET
    "state" = 'open',
    acknowledged_at = NULL,
    acknowledged_by = NULL,
    candidate = $candidate,
    candidate_rate = $candidate_rate,
    candidate_low = $candidate_low,
    candidate_high = $candidate_high,
    candidate_count = $candidate_count,
    regressed_count = $regressed_count,
    evidence = $evidence,
    evidence_threshold = $evidence_threshold,
    "document" = $document,
    escalations = escalations + 1,
    escalated_at = make_timestamp($at_us::BIGINT)
WHERE tenant = $tenant AND alert_id = $alert_id AND "state" <> 'recovered'
RETURNING alert_id;
