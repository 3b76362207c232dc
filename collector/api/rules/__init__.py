"""Rules, their connections, jobs and backfills, over HTTP."""
