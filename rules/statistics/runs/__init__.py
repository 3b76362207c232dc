"""Two finished runs compared: the one engine behind the gate, differences of runs, and whoever else asks."""
