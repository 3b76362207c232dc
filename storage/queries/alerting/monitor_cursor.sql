-- Return how far monitors have read results, and up to which result events were sent.
SELECT number, told FROM monitor_cursor;
