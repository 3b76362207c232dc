-- Return the run of an experiment with this key or id.
SELECT r.run_id
FROM run AS r
WHERE r.tenant = $tenant
    AND r.project = $project
    AND r.experiment = $experiment
    AND (r.run_id = $run_id OR r.run_key = $run_key);
