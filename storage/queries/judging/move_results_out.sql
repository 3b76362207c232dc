-- Advance the cursor of exported results, if it is still at the expected position.
UPDATE results_out SET number = $until WHERE number = $after;
