"""Who is asking, and what he may do: keys, roles and tenants, the decisions apart from what is stored."""
