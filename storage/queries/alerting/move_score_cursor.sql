-- Record up to which annotation and commit all scores were checked.
UPDATE score_state SET number = greatest(number, $number::BIGINT), batch = greatest(batch, $batch::BIGINT);
