-- Make room for rules that changed.
DELETE FROM rule WHERE rule_id IN (SELECT rule_id FROM changed_rules);
