"""Which stack this process uses when nobody says: told from files, without loading or initialising anything."""

from __future__ import annotations

import os
from glob import glob

from flydsl import config
from flydsl.runtime import library
from flydsl.target import gpu_backend_of_arch

_memo: dict[tuple[object, ...], bool] = {}


def _amd_nodes() -> bool:
    return os.path.exists("/dev/kfd") and bool(glob("/dev/dri/renderD*"))


def _nvidia_nodes() -> bool:
    return any(os.path.exists(node) for node in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"))


_GPU_STACKS = {"rocm": (_amd_nodes, library.HIP), "cuda": (_nvidia_nodes, library.CUDA)}
"""Built-in GPU stacks in order of preference: device nodes of the kernel driver, user library."""


def stack_present(kind: str) -> bool:
    """Whether a built-in stack's kernel driver and library are there; cpu always is."""
    if kind not in _GPU_STACKS:
        return kind == "cpu"
    nodes, spec = _GPU_STACKS[kind]
    state = (kind, spec.explicit(), spec.prefixes(), os.environ.get("LD_LIBRARY_PATH"))
    if state not in _memo:
        _memo[state] = nodes() and library.resolvable(spec)
    return _memo[state]


def present_stacks() -> list[str]:
    """The built-in stacks that are present, in order of preference."""
    return [kind for kind in (*_GPU_STACKS, "cpu") if stack_present(kind)]


def auto_stack() -> str:
    """The stack used when neither a backend nor an architecture is named."""
    return present_stacks()[0]


def selected_backend(arch: str = "") -> str:
    """The compile backend id: FLYDSL_COMPILE_BACKEND, else what an explicit architecture decides, else `auto_stack`."""
    name = config.compile.backend
    if name != "auto":
        return name
    for text in (arch, config.compile.arch, config.compile.arch_alias, config.compile.gpu_arch):
        if text and (backend := gpu_backend_of_arch(text)):
            return backend
        if text and text.strip().lower() == "native":
            return "cpu"
    return auto_stack()
