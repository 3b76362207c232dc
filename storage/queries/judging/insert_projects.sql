-- Insert projects that do not exist.
INSERT INTO project BY NAME
SELECT * EXCLUDE (created_at_us), make_timestamp(created_at_us) AS created_at
FROM new_projects
ANTI JOIN project USING (tenant, "name");
