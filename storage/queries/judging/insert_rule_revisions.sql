-- Insert new revisions.
INSERT INTO rule_revision BY NAME
SELECT * EXCLUDE (created_at_us), make_timestamp(created_at_us) AS created_at
FROM new_revisions;
