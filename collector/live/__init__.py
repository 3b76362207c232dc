"""Online evaluation: active rules, matching of committed spans, jobs, judges and their budgets."""
