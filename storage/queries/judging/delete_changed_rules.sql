-- Delete rules that changed, before their new rows are inserted.
DELETE FROM rule WHERE rule_id IN (SELECT rule_id FROM changed_rules);
