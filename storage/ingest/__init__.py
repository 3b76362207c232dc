"""From a decoded batch to committed rows: the spool, the backlog, the one writer, what traces mean."""
