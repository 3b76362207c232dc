"""Whether one set of results is worse than another: tests of finished sets, and tests that may be looked at always."""
