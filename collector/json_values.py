"""Count of the values in JSON before it is parsed, since parsing holds the GIL."""

from typing import Final

import numpy as np

MOST_VALUES: Final = 300_000
"""Parsing holds the GIL: 8 MB of empty lists, 5.6 million values, took 1.5 s, and validating them as long again.
The 5,000 items that a run may be sent at once fit with 60 values each."""

_PIECE_BYTES: Final = 1 << 20
_BEFORE_VALUES: Final = b",[{"


def has_more_values(body: bytes, most: int) -> bool:
    """Return whether JSON has more values than `most`, counted as `,`, `[` and `{` outside of strings."""
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
