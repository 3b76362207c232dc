-- Open an alert, unless that episode was opened before. Returns its id, or no row.
INSERT INTO alert BY NAME
SELECT
    $tenant AS tenant,
    $alert_id AS alert_id,
    $episode AS episode,
    $project AS project,
    $rule_id AS rule_id,
    $rule AS "rule",
    $revision AS revision,
    $kind AS kind,
    $evaluator AS evaluator,
    $fingerprint AS fingerprint,
    $measure AS measure,
    'open' AS "state",
    $baseline AS baseline,
    $baseline_rate AS baseline_rate,
    $baseline_low AS baseline_low,
    $baseline_high AS baseline_high,
    $baseline_count AS baseline_count,
    $candidate AS candidate,
    $candidate_rate AS candidate_rate,
    $candidate_low AS candidate_low,
    $candidate_high AS candidate_high,
    $candidate_count AS candidate_count,
    $regressed_count AS regressed_count,
    $evidence AS evidence,
    $evidence_threshold AS evidence_threshold,
    $document AS "document",
    $metric AS metric,
    $severity AS severity,
    make_timestamp($at_us::BIGINT) AS opened_at
WHERE NOT EXISTS (SELECT 1 FROM alert AS a WHERE a.tenant = $tenant AND a.alert_id = $alert_id)
RETURNING alert_id;
