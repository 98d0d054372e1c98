"""Compile hints: the names every backend knows, their validation, and the frozen `Options` they become.

A hint that means nothing to the active backend (`waves_per_eu` on cuda) is still checked, and has no effect there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from flydsl import config
from flydsl.errors import DSLTypeError, DSLValueError, UnknownHintWarning

LlvmOption = bool | int | str

FASTMATH_FLAGS = ("none", "reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast")


@dataclass(frozen=True, slots=True)
class Options:
    """Validated hints plus the settings of the environment that shape device code; hashable."""

    opt_level: int = 2
    debug_info: bool = False
    waves_per_eu: tuple[int, int | None] | None = None
    """rocm: least and, if given, most waves per execution unit."""
    maxnreg: int | None = None
    """Registers a thread may use."""
    fast_fp_math: bool = False
    unsafe_fp_math: bool = False
    fastmath: tuple[str, ...] = ()
    """Fast-math flags of the traced arithmetic."""
    noalias: bool = False
    """The caller's promise: the memory of one tensor argument of a kernel is not that of another."""
    llvm_options: tuple[tuple[str, LlvmOption], ...] = ()
    """LLVM command-line options, sorted by name; they need an external code generator."""
    cpu_check: bool = False
    """cpu: checked mode."""
    cpu_check_buffers: bool = False
    """cpu: checked mode also reports accesses that a buffer's descriptor leaves out."""
    cpu_schedules: bool = False
    """cpu: threads stop where their order may matter, for `explore_schedules`."""


def _int(name: str, value: object, low: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DSLTypeError(f"hint {name} must be an int, got {value!r}")
    if value < low:
        raise DSLValueError(f"hint {name} must be at least {low}, got {value}")
    return value


def _bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DSLTypeError(f"hint {name} must be True or False, got {value!r}")
    return value


def _waves(name: str, value: object) -> tuple[int, int | None] | None:
    """`n`, `(min, max)` or "min,max"; 0 leaves the source's default."""
    if isinstance(value, str):
        try:
            value = tuple(int(part) for part in value.split(","))
        except ValueError:
            raise DSLValueError(f"hint {name} must be an int, (min, max) or 'min,max', got {value!r}") from None
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        parts = cast("Sequence[object]", value)
        if len(parts) not in (1, 2):
            raise DSLValueError(f"hint {name} takes one number or a pair (min, max), got {value!r}")
        numbers = [_int(name, part, 0) for part in parts]
        if len(numbers) == 2:
            if numbers[0] > numbers[1]:
                raise DSLValueError(f"hint {name}: min {numbers[0]} is larger than max {numbers[1]}")
            return numbers[0], numbers[1]
        value = numbers[0]
    count = _int(name, value, 0)
    return (count, None) if count else None


def _fastmath(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise DSLTypeError(f"hint {name} must be a string of fast-math flags, got {value!r}")
    flags = tuple(sorted({flag.strip() for flag in value.split(",") if flag.strip()}))
    for flag in flags:
        if flag not in FASTMATH_FLAGS:
            raise DSLValueError(f"hint {name}: unknown flag {flag!r}; known: {', '.join(FASTMATH_FLAGS)}")
    return flags


def _llvm_options(name: str, value: object) -> tuple[tuple[str, LlvmOption], ...]:
    if not isinstance(value, Mapping):
        raise DSLTypeError(f"hint {name} must be a dict of option name to bool, int or str, got {value!r}")
    found: list[tuple[str, LlvmOption]] = []
    for key, item in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str):
            raise DSLTypeError(f"hint {name}: option names must be str, got {key!r}")
        if not isinstance(item, bool | int | str):
            raise DSLTypeError(f"Unsupported type {type(item).__name__} for LLVM option {key!r}")
        found.append((key, item))
    return tuple(sorted(found, key=lambda pair: pair[0]))


PARSERS: dict[str, Callable[[str, object], object]] = {
    "waves_per_eu": _waves,
    "maxnreg": lambda name, value: _int(name, value, 1),
    "fast_fp_math": _bool,
    "unsafe_fp_math": _bool,
    "fastmath": _fastmath,
    "noalias": _bool,
    "llvm_options": _llvm_options,
    "cpu_check": _bool,
    "cpu_check_buffers": _bool,
    "cpu_schedules": _bool,
    "opt_level": lambda name, value: _opt_level(name, value),
    "debug_info": _bool,
}

DRIVER_HINTS = frozenset(
    ("llvm_pass_pipeline", "llvm_pass_plugins", "llvm_codegen_passes", "llvm_codegen_plugins", "ir_passes")
)
"""Hints the compiler driver consumes itself."""


def _opt_level(name: str, value: object) -> int:
    level = _int(name, value, 0)
    if level > 3:
        raise DSLValueError(f"hint {name} must be 0 to 3, got {level}")
    return level


def parse_hints(hints: Mapping[str, object] | None, *, extra: frozenset[str] = frozenset()) -> Options:
    """Validate hints; `None` values count as absent, unknown names warn (FLYDSL_COMPILE_STRICT=1: raise).

    `extra` are names a backend handles by itself.
    """
    values: dict[str, Any] = {
        "opt_level": config.compile.opt_level,
        "debug_info": config.debug.enable_debug_info,
        "cpu_check": config.cpu.check,
        "cpu_check_buffers": config.cpu.check_buffers,
    }
    for name, value in (hints or {}).items():
        if value is None or name in extra or name in DRIVER_HINTS:
            continue
        parser = PARSERS.get(name)
        if parser is None:
            _unknown(name)
        else:
            values[name] = parser(name, value)
    return Options(**values)


def _unknown(name: str) -> None:
    known = sorted({*PARSERS, *DRIVER_HINTS})
    close = difflib.get_close_matches(name, known, 1)
    text = f"unknown compile hint {name!r}{f'; did you mean {close[0]!r}?' if close else ''} Known: {', '.join(known)}"
    if config.compile.strict:
        raise DSLValueError(text)
    config.warn(text, UnknownHintWarning, stacklevel=4)
