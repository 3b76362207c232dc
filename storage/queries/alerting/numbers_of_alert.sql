-- The numbers of an alert, for checking them: over the views of dashboards.
SELECT
    'baseline' AS side,
    count(*) AS results,
    avg(/* measure */) AS rate
FROM /* view */
WHERE /* stream */
    AND (
        /* baseline */
    )
UNION ALL
SELECT
    'candidate' AS side,
    count(*) AS results,
    avg(/* measure */) AS rate
FROM /* view */
WHERE /* stream */
    AND (
        /* candidate */
    );
