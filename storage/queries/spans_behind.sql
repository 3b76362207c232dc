-- How many spans come after a number, and when the first of them came.
SELECT count(*), epoch_ns(min(received_at)) FROM span WHERE seq > $seq;
