-- Note up to which annotation and commit all were looked at for the last time.
UPDATE score_state SET number = greatest(number, $number::BIGINT), batch = greatest(batch, $batch::BIGINT);
