-- Store the resources of a batch that are not stored yet.
INSERT INTO resource
SELECT *
FROM incoming_resources
WHERE resource_id NOT IN (SELECT resource_id FROM resource);
