-- Return the last numbers of a run item and of a score.
SELECT
    (SELECT coalesce(max(item_number), 0) FROM run_item) AS last_item,
    (SELECT coalesce(max(score_number), 0) FROM run_score) AS last_score;
