"""Evaluation of jobs: the ledger's thread, the executors, and the processes and endpoints that they ask."""
