"""Named configurations in a folder of their own (`FLYDSL_AUTOTUNE_CONFIG_DIR`): made by a forced search, for others.

An artifact belongs to a name, the declared key of a call and a device. It is looked at anew for each key, must name
knobs only, and is passed over with a warning where anything about it is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from .. import config
from ..errors import CacheWarning, DSLValueError
from ..trusted_files import Trust, atomic_write, read_file
from .candidate import Config, plain_values
from .key import DeviceIdentity

VERSION = 1
LIMIT = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_name(name: str) -> str:
    """The name, or an error that says what one looks like."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"artifact_name: expected 1 to 64 letters, digits, '.', '_' or '-', got {name!r}")
    return name


def canonical(value: object) -> str:
    """One text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def identity(name: str, declared: Mapping[str, object], device: DeviceIdentity) -> dict[str, object]:
    """Whose configuration it is."""
    return {"name": name, "key": dict(declared), "device": device.to_dict()}


def path_of(folder: Path, name: str, who: Mapping[str, object]) -> Path:
    """The file of an identity."""
    return folder / f"{name}-{hashlib.sha256(canonical(who).encode()).hexdigest()}.json"


def load(path: Path, who: Mapping[str, object], knobs: frozenset[str], taken: frozenset[str]) -> Config | None:
    """The configuration of an artifact, or None; a file that is there and not right is warned of.

    `knobs` are the parameters a configuration may give, `taken` those the caller or the key has given already.
    """
    try:
        data, _ = read_file(path, LIMIT, trust=Trust.of(config.runtime.cache_trusted_owners), path=str(path))
        body: object = json.loads(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        return _ignored(path, str(error))
    if not isinstance(body, dict):
        return _ignored(path, "it is no JSON object")
    fields = cast("dict[str, object]", body)
    if fields.get("version") != VERSION:
        return _ignored(path, f"it has the version {fields.get('version')!r}, this one reads {VERSION}")
    if fields.get("identity") != json.loads(canonical(who)):
        return _ignored(path, "it belongs to another name, key or device")
    values = fields.get("config")
    if not isinstance(values, dict):
        return _ignored(path, "it has no configuration")
    named = cast("dict[str, object]", values)
    try:
        found = Config.from_dict(named)
    except (TypeError, ValueError) as error:
        return _ignored(path, str(error))
    given = found.all_kwargs().keys()
    if unknown := given - knobs - {"num_warps"}:
        return _ignored(path, f"it gives {', '.join(sorted(unknown))}, which the function does not have")
    if both := given & taken:
        return _ignored(path, f"it would override {', '.join(sorted(both))}, which the call gives")
    return found


def _ignored(path: Path, why: str) -> None:
    config.warn(f"the configuration {path} is ignored: {why}", CacheWarning, stacklevel=5)


def emit(path: Path, who: Mapping[str, object], winner: Config) -> bool:
    """Write a winner for others; whether that was possible."""
    values = plain_values(winner)
    if winner.pre_hook is not None or values is None:
        why = "it has a pre_hook" if winner.pre_hook is not None else "its values do not survive JSON"
        config.warn(f"no configuration is written to {path}: {why}", CacheWarning, stacklevel=4)
        return False
    body = {"version": VERSION, "identity": dict(who), "config": values}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, (json.dumps(body, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        config.warn(f"no configuration is written to {path}: {error}", CacheWarning, stacklevel=4)
        return False
    return True
