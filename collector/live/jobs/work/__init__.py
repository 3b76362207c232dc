"""How jobs become evaluations: the ledger's thread, the lanes, and the processes and endpoints that they ask."""
