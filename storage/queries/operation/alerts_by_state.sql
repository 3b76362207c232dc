-- Count the alerts that are open or acknowledged.
SELECT "state", count(*) FROM alert WHERE "state" <> 'recovered' GROUP BY "state";
