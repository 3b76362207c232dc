-- Note up to which annotation all were looked at for the last time.
UPDATE score_state SET number = greatest(number, $number);
