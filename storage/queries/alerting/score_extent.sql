-- Up to which annotation all were looked at for the last time, which is the last, and the last that was said before a moment.
SELECT
    (SELECT number FROM score_state) AS looked_at,
    coalesce(max(number), 0) AS last,
    coalesce(max(number) FILTER (WHERE created_at < make_timestamp($before_us::BIGINT)), 0) AS settled
FROM annotation;
