-- How far results were told, and who we are.
SELECT number, instance FROM results_out;
