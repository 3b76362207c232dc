"""Files that other tools write, read as items of datasets: a module for each tool."""
