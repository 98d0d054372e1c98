"""Device code of a traced module that is there as IR, without a jit call around it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from ..errors import DSLTypeError, NotSupportedError
from ..passes.pipeline import parse_pipeline
from .backends import get_backend
from .backends.base import BaseBackend, DeviceBinary
from .driver import run_passes, split
from .dumps import Dumper

if TYPE_CHECKING:
    from os import PathLike


def pipeline_text(backend: BaseBackend, compile_hints: Mapping[str, Any] | None = None) -> str:
    """The passes of a backend as one text, as `fly-opt --pass-pipeline` takes it."""
    fragments = backend.pipeline_fragments(compile_hints=dict(compile_hints or {}))
    return f"builtin.module({','.join(fragments)})"


class MlirCompiler:
    """Compiles modules of IR with the active backend."""

    @classmethod
    def compile(
        cls,
        module: ModuleOp,
        *,
        arch: str = "",
        func_name: str = "",
        link_libs: Sequence[str | PathLike[str]] | None = None,
        chip: str | None = None,
    ) -> DeviceBinary:
        """Device code of `module` for `arch` (default: the one detected); `func_name` names the dumps.

        `chip` is the old name of `arch` and goes away in the next minor release.
        """
        if chip is not None:
            if arch and arch != chip:
                raise DSLTypeError(f"arch={arch!r} and chip={chip!r} differ; chip is the old name of arch")
            warnings.warn("chip= is deprecated, say arch=", DeprecationWarning, stacklevel=2)
            arch = chip
        backend = get_backend(arch=arch)
        if link_libs:
            names = ", ".join(map(str, link_libs))
            raise NotSupportedError(backend.name, f"linking bitcode ({names}) into a module of IR")
        fragments, _ = backend.external_binary_pipeline_fragments(compile_hints={})
        passes = [p for fragment in fragments for p in parse_pipeline(fragment)]
        lowered = run_passes(module, passes, {}, Dumper(func_name or "module", [], "", str))
        device, _ = split(lowered)
        return backend.make_device_code(backend.device_ir(device), options=backend.parse_options(None))


__all__ = ["MlirCompiler", "pipeline_text"]
