"""How many values JSON has, counted before it is parsed, which holds Python's lock."""

from typing import Final

import numpy as np

MOST_VALUES: Final = 300_000
"""Python holds its lock while it parses: 8 MB of empty lists, 5.6 million, took 1.5 s, and checking them as long again.
The 5,000 items that a run may be sent at once fit with 60 values each."""

_PIECE_BYTES: Final = 1 << 20
_BEFORE_VALUES: Final = b",[{"


def has_more_values(body: bytes, most: int) -> bool:
    """Return whether JSON has more values than `most`, counted by the characters before them outside of strings."""
    if sum(body.count(mark) for mark in _BEFORE_VALUES) <= most:
        return False
    plain = body.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")  # the remaining quotes begin and end strings
    count, in_text = 0, False
    for start in range(0, len(plain), _PIECE_BYTES):
        piece = np.frombuffer(plain, np.uint8, min(_PIECE_BYTES, len(plain) - start), start)
        within = np.logical_xor.accumulate(piece == ord('"')) ^ in_text
        count += sum(int(np.count_nonzero((piece == mark) & ~within)) for mark in _BEFORE_VALUES)
        in_text = bool(within[-1])
    return count > most
