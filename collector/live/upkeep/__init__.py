"""Background work: deletion, expiry, publishing in the lake, and filling review queues."""
