-- The rules to be changed that do not have the version any more from which the change was made.
SELECT c.rule_id
FROM changed_rules AS c
LEFT JOIN rule AS r ON r.rule_id = c.rule_id
WHERE c.was IS DISTINCT FROM r.version;
