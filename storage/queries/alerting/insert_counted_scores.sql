-- Store scores that monitors count from here on, with the next numbers of results, but for those that were deleted meanwhile.
INSERT INTO counted_score BY NAME
SELECT
    i.*,
    (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY i.annotation, i.revision) AS number,
    make_timestamp($now_us::BIGINT) AS created_at
FROM incoming_scores AS i
SEMI JOIN annotation AS a ON a.number = i.annotation;
