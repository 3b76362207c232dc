-- Between which numbers of spans is what rules about sessions made of one, as far as its traces reach, whose numbers
-- are here, from one to another; NULL where they made nothing of it.
SELECT min(seq), max(seq)
FROM (
    SELECT seq
    FROM evaluation
    WHERE session_id = $session_id AND tenant = $tenant AND seq BETWEEN $first_seq AND $last_seq
    UNION ALL
    SELECT d.seq
    FROM decision AS d
    INNER JOIN numbers_of_session AS n ON d.seq BETWEEN n.first_seq AND n.last_seq
    WHERE d.revision IN (SELECT revision FROM rule_revision WHERE target = 'SESSION')
    UNION ALL
    SELECT last_seq
    FROM session_open
    WHERE session_id = $session_id AND tenant = $tenant
);
