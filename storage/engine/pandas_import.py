"""Shortcut for DuckDB's search for pandas, which is not installed.

DuckDB 1.5.5 tries twice for each parameter of a statement to import pandas, and if it is not installed, Python searches
its path each time: 80 µs of CPU a parameter, 18 of the 58 ms that a list of 50 traces took. If an import fails without
a search, it takes 5 to 15 µs. (`sys.modules["pandas"] = None` does not help, because pyarrow takes it for a module.)
"""

import sys
from importlib.util import find_spec


class _NoPandas:
    """An import finder that reports pandas as missing."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse pandas, and leave all else to others.

        Raises:
            ModuleNotFoundError: the module is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("there is no pandas here", name=name)


def hide_pandas() -> None:
    """Make imports of pandas fail fast in this process, if it is not installed."""
    if _NoPandas not in sys.meta_path and "pandas" not in sys.modules and find_spec("pandas") is None:
        sys.meta_path.insert(0, _NoPandas)
