-- Count the alert deliveries by state.
SELECT "state", count(*) FROM alert_delivery GROUP BY "state";
