"""Signatures of artifacts: Ed25519, in a block behind the container.

An artifact is code. Its checksum tells damage from the original, a signature tells whose original it is. The block is a
magic, the SHA-256 of the public key and the signature of the container's SHA-256. The `cryptography` package makes and
checks it; nothing else needs that package.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from flydsl.errors import ArtifactSignatureError, ConfigError, DSLValueError, MissingPackageError
from flydsl.trusted_files import atomic_write, read_file

MAGIC = b"FLYSIG01"
SIZE = len(MAGIC) + 32 + 64
KEYS_VARIABLE = "FLYDSL_AOT_TRUSTED_KEYS"
_DOMAIN = b"FlyDSL artifact, version 1\0"
_KEY_LIMIT = 1 << 16


class PublicKey(Protocol):
    """What is used of an Ed25519 public key of the package."""

    def verify(self, signature: bytes, data: bytes) -> None: ...

    def public_bytes_raw(self) -> bytes: ...


class PrivateKey(Protocol):
    """What is used of an Ed25519 private key of the package."""

    def sign(self, data: bytes) -> bytes: ...

    def public_key(self) -> PublicKey: ...


def split(data: bytes) -> tuple[bytes, bytes]:
    """The container and its signature block, which is empty if there is none."""
    return (data[:-SIZE], data[-SIZE:]) if data[-SIZE : len(MAGIC) - SIZE] == MAGIC else (data, b"")


def _message(container: bytes) -> bytes:
    return _DOMAIN + hashlib.sha256(container).digest()


def _package(name: str) -> ModuleType:
    """A module of the package, which need not be installed."""
    try:
        return import_module(f"cryptography.{name}")
    except ImportError:
        raise MissingPackageError("signatures of artifacts", "cryptography", "sign") from None


_ED25519 = "hazmat.primitives.asymmetric.ed25519"
_FORMS = "hazmat.primitives.serialization"


def generate(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Make a key pair: the private key in a file for its owner alone, the public one beside it as `.pub`."""
    made, forms = _package(_ED25519), _package(_FORMS)
    private, public = Path(path), Path(f"{os.fspath(path)}.pub")
    for file in (private, public):
        if file.exists():
            raise DSLValueError(f"{file} is there already; what it signed could not be checked without it")
    key = made.Ed25519PrivateKey.generate()
    pem = forms.Encoding.PEM
    atomic_write(private, key.private_bytes(pem, forms.PrivateFormat.PKCS8, forms.NoEncryption()), mode=0o600)
    atomic_write(public, key.public_key().public_bytes(pem, forms.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def read_private_key(path: str | os.PathLike[str]) -> PrivateKey:
    """The private key of a file that nobody else can read."""
    kinds, forms, problems = _package(_ED25519), _package(_FORMS), _package("exceptions")
    name = os.fspath(path)
    try:
        data, info = read_file(path, _KEY_LIMIT)
    except OSError as error:
        raise DSLValueError(f"the signing key {name} cannot be read: {error.strerror or error}") from None
    if info.st_mode & 0o077:
        raise DSLValueError(f"others have access to the signing key {name}; run `chmod 600 {name}`")
    try:
        key = forms.load_pem_private_key(data, None)
    except (ValueError, TypeError, problems.UnsupportedAlgorithm) as error:
        raise DSLValueError(f"{name} is no private key in PEM form without a password ({error})") from None
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise DSLValueError(f"{name} is not an Ed25519 key; `fly aot keygen` makes one")
    return cast(PrivateKey, key)


def sign(data: bytes, key: PrivateKey) -> bytes:
    """The artifact, signed; a signature it had is replaced."""
    container, _ = split(data)
    known = hashlib.sha256(key.public_key().public_bytes_raw()).digest()
    return container + MAGIC + known + key.sign(_message(container))


def read_public_keys(places: Sequence[Path]) -> dict[bytes, PublicKey]:
    """The keys of some files, and of the `.pub` files of some folders, by their SHA-256."""
    kinds, forms, problems = _package(_ED25519), _package(_FORMS), _package("exceptions")
    found: dict[bytes, PublicKey] = {}
    for place in places:
        for path in sorted(place.glob("*.pub")) if place.is_dir() else (place,):
            try:
                key = forms.load_pem_public_key(read_file(path, _KEY_LIMIT)[0])
            except OSError as error:
                raise ConfigError(f"{KEYS_VARIABLE}: {path} cannot be read: {error.strerror or error}") from None
            except (ValueError, problems.UnsupportedAlgorithm) as error:
                raise ConfigError(f"{KEYS_VARIABLE}: {path} is no public key in PEM form ({error})") from None
            if not isinstance(key, kinds.Ed25519PublicKey):
                raise ConfigError(f"{KEYS_VARIABLE}: {path} is not an Ed25519 key")
            trusted = cast(PublicKey, key)
            found[hashlib.sha256(trusted.public_bytes_raw()).digest()] = trusted
    return found


class SignatureCheck:
    """Whether artifacts are signed with one of the trusted keys; without keys everything passes."""

    def __init__(self, places: Sequence[Path]):
        self._places = tuple(places)
        self._keys: dict[bytes, PublicKey] | None = None

    def check(self, data: bytes, path: str | os.PathLike[str]) -> None:
        """Raise `ArtifactSignatureError` for an artifact that is not signed by a trusted key."""
        if not self._places:
            return
        name = os.fspath(path)
        if self._keys is None:
            self._keys = read_public_keys(self._places)
        container, block = split(data)
        if not block:
            raise ArtifactSignatureError(name, "it is not signed, and FLYDSL_AOT_TRUSTED_KEYS is set")
        key = self._keys.get(block[len(MAGIC) : len(MAGIC) + 32])
        if key is None:
            there = f"one of the {len(self._keys)} keys" if self._keys else "any key: there are none"
            raise ArtifactSignatureError(name, f"it is not signed with {there} of {KEYS_VARIABLE}")
        try:
            key.verify(block[-64:], _message(container))
        except _package("exceptions").InvalidSignature:
            raise ArtifactSignatureError(name, "its signature does not hold: it was changed after signing") from None
