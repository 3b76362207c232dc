-- Return the span numbers between which decisions and evaluations of a session lie, given its traces' numbers; NULL if
-- there are none.
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
