"""What is wrong with a form, by the field that it stands beside."""

from pydantic import ValidationError


def by_field(error: ValidationError) -> dict[str, str]:
    """The models of the API check forms too; of several problems of one field the first. No value is repeated."""
    told: dict[str, str] = {}
    for each in error.errors(include_url=False, include_input=False):
        name = str(each["loc"][0]) if each["loc"] else ""
        message = "is required" if each["type"] == "missing" else each["msg"].removeprefix("Value error, ")
        told.setdefault(name, message[:1].lower() + message[1:])
    return told
