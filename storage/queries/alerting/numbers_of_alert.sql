-- The numbers of an alert, written out with it: for whoever checks them, over what dashboards see.
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
