-- Return the numbers of an alert, counted again over the dashboard views.
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
