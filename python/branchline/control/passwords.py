"""Hashes of passwords.

Passwords are hashed with scrypt (RFC 7914), which needs much time and memory and therefore slows down guessing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from branchline.base.limits import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from branchline.errors import OptionError

# Parameters of scrypt. 2**15 blocks of 8 * 128 bytes cost a password guesser 32 MB and a tenth of a second per attempt.
_N, _R, _P = 2**15, 8, 1
_MEMORY_BYTES = 2 * 128 * _N * _R
_SALT_BYTES = 16


def check_password(password: str) -> None:
    """Raise OptionError for a password that is too short or too long."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        what = f"a password must have {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters"
        raise OptionError(what, hint="use a few words")


def hashed(password: str) -> str:
    """Hash a password. The result has the form ``scrypt$n$r$p$salt$hash``, with all parameters for a later check."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(["scrypt", str(_N), str(_R), str(_P), _base64(salt), _base64(_scrypt(password, salt, _N, _R, _P))])


def is_password(password: str, kept: str) -> bool:
    """Whether a password matches the hash ``kept``.

    ``kept`` is empty for an unknown name; the check then takes as long as for a known name.
    """
    if len(password) > PASSWORD_CHARACTERS_MAX:
        return False
    _, n, r, p, salt, expected = (kept or _NOBODY).split("$")
    found = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(expected)) and bool(kept)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES, dklen=32
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


# The hash with which a password for an unknown name is compared, so that the check takes as long.
_NOBODY = "$".join(["scrypt", str(_N), str(_R), str(_P), _base64(bytes(_SALT_BYTES)), _base64(bytes(32))])
