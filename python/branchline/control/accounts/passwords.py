"""Passwords as they are kept: hashed by scrypt (RFC 7914), which takes time and memory that guessing cannot save."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from branchline.base.limits import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from branchline.errors import OptionError

# 2**15 blocks of 8 * 128 bytes: 32 MB and a tenth of a second for each try.
_N, _R, _P = 2**15, 8, 1
_MEMORY_BYTES = 2 * 128 * _N * _R
_SALT_BYTES = 16


def check_password(password: str) -> None:
    """Raises OptionError for one that is too short or too long."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        what = f"a password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters"
        raise OptionError(what, hint="take a few words")


def hashed(password: str) -> str:
    """The hash of a password with all that is needed to check it: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(["scrypt", str(_N), str(_R), str(_P), _text(salt), _text(_hash(password, salt, _N, _R, _P))])


def is_password(password: str, kept: str) -> bool:
    """Whether a password is the one of a hash; it takes as long where ``kept`` is empty, as for an unknown name."""
    if len(password) > PASSWORD_CHARACTERS_MAX:
        return False
    _, n, r, p, salt, expected = (kept or _NOBODY).split("$")
    found = _hash(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(expected)) and bool(kept)


def _hash(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES, dklen=32
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


_NOBODY = "$".join(["scrypt", str(_N), str(_R), str(_P), _text(bytes(_SALT_BYTES)), _text(bytes(32))])
