-- The number of each revision, by its rule and what it says.
SELECT rule_id, digest, revision FROM rule_revision;
