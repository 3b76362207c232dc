-- Delete the states of the streams in `incoming_states`, which replaces them.
DELETE FROM monitor_state
USING incoming_states AS i
WHERE i.tenant = monitor_state.tenant
    AND i.project IS NOT DISTINCT FROM monitor_state.project
    AND i.rule_id = monitor_state.rule_id
    AND i.service IS NOT DISTINCT FROM monitor_state.service
    AND i.fingerprint = monitor_state.fingerprint;
