-- Return how far results were exported, and the id of this instance.
SELECT number, instance FROM results_out;
