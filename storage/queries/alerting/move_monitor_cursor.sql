-- Advance the cursor of results, if it is still at the expected position.
UPDATE monitor_cursor SET number = $until WHERE number = $after;
