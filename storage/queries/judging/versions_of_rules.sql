-- Return the rules to change whose version is no longer the expected one.
SELECT c.rule_id
FROM changed_rules AS c
LEFT JOIN rule AS r ON r.rule_id = c.rule_id
WHERE c.was IS DISTINCT FROM r.version;
