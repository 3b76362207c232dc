"""Keys, tenants and what belongs to whom, over HTTP."""
