-- Insert the states of streams.
INSERT INTO monitor_state BY NAME
SELECT
    tenant,
    project,
    rule_id,
    service,
    fingerprint,
    "state",
    make_timestamp(since_us) AS since,
    make_timestamp(updated_us) AS updated
FROM incoming_states;
