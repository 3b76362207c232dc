"""The beginning of a value as JSON, for displays that cut it. The rest of the value is not encoded."""

import json


def json_beginning(value: object, most_characters: int, *, indent: int | None = None, is_ascii: bool = False) -> str:
    """Write a value as JSON up to a number of characters."""
    pieces: list[str] = []
    room = most_characters
    encoder = json.JSONEncoder(indent=indent, ensure_ascii=is_ascii, default=str)
    for piece in encoder.iterencode(value):
        pieces.append(piece[:room])
        room -= len(pieces[-1])
        if room <= 0:
            break
    return "".join(pieces)
