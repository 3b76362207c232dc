"""From a decoded batch to committed rows: the spool, the backlog, the one writer, the meaning of traces."""
