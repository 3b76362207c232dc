"""Authentication and authorization by keys, roles and tenants; the decisions are kept apart from the storage."""
