"""Pictures as inline SVG: pure functions, each with a table of the values that it draws."""
