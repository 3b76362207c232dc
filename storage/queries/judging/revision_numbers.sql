-- Return the number of each revision, by its rule and digest.
SELECT rule_id, digest, revision FROM rule_revision;
