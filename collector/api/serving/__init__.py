"""The application: its routes, what each request passes first, and its contract."""
