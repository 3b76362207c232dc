-- How many deliveries of alerts are in each state.
SELECT "state", count(*) FROM alert_delivery GROUP BY "state";
