"""Pictures as SVG inside of a page: pure, each with a table of what it shows."""
