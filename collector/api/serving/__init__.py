"""The application: its routes, its middleware, and its contract."""
