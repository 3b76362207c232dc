-- Insert changed and new rules.
INSERT INTO rule BY NAME
SELECT
    * EXCLUDE (was, created_at_us, updated_at_us, deleted_at_us),
    make_timestamp(created_at_us) AS created_at,
    make_timestamp(updated_at_us) AS updated_at,
    make_timestamp(deleted_at_us) AS deleted_at
FROM changed_rules;
