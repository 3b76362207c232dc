-- Only the latest $kept entries of the audit stay.
DELETE FROM audit WHERE audit_id <= (SELECT max(audit_id) FROM audit) - $kept;
