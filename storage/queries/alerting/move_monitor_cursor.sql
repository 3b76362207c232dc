-- Note up to where results were looked at, if that goes on from where it was.
UPDATE monitor_cursor SET number = $until WHERE number = $after;
