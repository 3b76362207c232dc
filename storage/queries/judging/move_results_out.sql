-- Note up to where results were told, if that goes on from where it was.
UPDATE results_out SET number = $until WHERE number = $after;
