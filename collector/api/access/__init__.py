"""Keys, tenants and ownership over HTTP."""
