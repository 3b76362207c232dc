-- Delete all but the latest $kept entries of the audit log.
DELETE FROM audit WHERE audit_id <= (SELECT max(audit_id) FROM audit) - $kept;
