"""Secrets at rest: they open with their key in their place, and nowhere else."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.secrets import CannotDecrypt, NoEncryptionKey, Secrets, as_key

RAW = bytes(range(32))
PLACE = "llm_connection 1"


@pytest.mark.parametrize(
    "configured",
    [
        RAW.hex(),
        RAW.hex().upper(),
        base64.b64encode(RAW).decode(),
        base64.urlsafe_b64encode(bytes(range(224, 256))).decode().rstrip("="),
        "correct horse battery",
    ],
)
def test_a_secret_opens_with_its_key(configured: str) -> None:
    """Each way to write a key encrypts and decrypts, in the next process too."""
    stored = Secrets(configured).encrypt("sk-1 é", belongs_to=PLACE)
    assert Secrets(configured).decrypt(stored, belongs_to=PLACE) == "sk-1 é"
    assert b"sk-1" not in stored


def test_each_way_to_write_a_key_is_the_same_key() -> None:
    """Hexadecimal digits and base64 of the same bytes open each other's secrets."""
    stored = Secrets(RAW.hex()).encrypt("sk-1", belongs_to=PLACE)
    assert Secrets(base64.b64encode(RAW).decode()).decrypt(stored, belongs_to=PLACE) == "sk-1"
    assert as_key("correct horse battery") is None


def test_the_same_secret_looks_different_each_time() -> None:
    """Salt and nonce are new each time, so that equal secrets cannot be recognized as equal."""
    secrets = Secrets(RAW.hex())
    assert len({secrets.encrypt("sk-1", belongs_to=PLACE) for _ in range(50)}) == 50


@pytest.mark.parametrize("other", [bytes(32).hex(), "another passphrase"])
def test_another_key_does_not_open_it(other: str) -> None:
    """Decryption with a wrong key raises an error with an explanation."""
    stored = Secrets(RAW.hex()).encrypt("sk-1", belongs_to=PLACE)
    with pytest.raises(CannotDecrypt, match="TRACEJURY_ENCRYPTION_KEY is not the key"):
        Secrets(other).decrypt(stored, belongs_to=PLACE)


def test_it_opens_in_no_other_place() -> None:
    """A secret that was copied into another row is of no use there."""
    secrets = Secrets(RAW.hex())
    with pytest.raises(CannotDecrypt):
        secrets.decrypt(secrets.encrypt("sk-1", belongs_to=PLACE), belongs_to="llm_connection 2")


@given(at=st.integers(0, 63), bit=st.integers(0, 7), length=st.integers(0, 63))
def test_whatever_was_changed_is_noticed(at: int, bit: int, length: int) -> None:
    """Any bit that flips, and any byte that is missing, is an explanation and no crash."""
    secrets = Secrets(RAW.hex())
    stored = secrets.encrypt("sk-" + "1" * 16, belongs_to=PLACE)
    flipped = bytearray(stored)
    flipped[at] ^= 1 << bit
    for changed in (bytes(flipped), stored[:length]):
        with pytest.raises(CannotDecrypt):
            secrets.decrypt(changed, belongs_to=PLACE)


def test_without_a_key_nothing_is_kept_and_nothing_opens() -> None:
    """The refusal names the variable."""
    stored = Secrets(RAW.hex()).encrypt("sk-1", belongs_to=PLACE)
    with pytest.raises(NoEncryptionKey, match="TRACEJURY_ENCRYPTION_KEY is not set"):
        Secrets(None).encrypt("sk-1", belongs_to=PLACE)
    with pytest.raises(NoEncryptionKey, match="TRACEJURY_ENCRYPTION_KEY is not set"):
        Secrets(None).decrypt(stored, belongs_to=PLACE)
