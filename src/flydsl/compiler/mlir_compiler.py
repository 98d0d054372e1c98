"""Device code of a traced module that is there as IR, without a jit call around it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from ..dialects.upstream import llvm
from ..expr.extern import Library
from ..llvm.text.debug_info import ATTRIBUTE as DEBUG_ATTRIBUTE
from ..passes.fuse import made_up_for, one_by_one, plan, upper_part
from ..passes.pipeline import with_demanded
from .backends import get_backend
from .backends.base import BaseBackend, DeviceBinary
from .build.driver import calls_externs, run_passes, specs_of, split
from .build.dumps import Dumper, wanted
from .build.isolation import RAW_TEXT, blamed, where_to_generate
from .build.pass_options import requested
from .build.traced_for import device_of, hints_of, say_what_for
from .extern_link import Externs, link_externs

if TYPE_CHECKING:
    from os import PathLike


def pipeline_text(backend: BaseBackend, compile_hints: Mapping[str, object] | None = None) -> str:
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

        `link_libs` are files of bitcode with the functions the module calls and does not define. A module that says
        what it was traced for (`fly.target`, `fly.hints`) is compiled with those hints, and for no other target.

        `chip` is the old name of `arch`, which wins where both are given, and goes away in the next minor release.
        FLYDSL_COMPILE_LLVM_PASS_PIPELINE and the other variables for custom passes count as for a jit function.
        """
        if chip is not None:
            ignored = f"; chip={chip!r} is ignored for arch={arch!r}" if arch and arch != chip else ""
            warnings.warn(f"chip= is deprecated, say arch={ignored}", DeprecationWarning, stacklevel=2)
            arch = arch or chip
        backend = get_backend(arch=arch)
        hints = hints_of(module) or {}
        options = backend.parse_options(hints)
        module = module.clone()
        say_what_for(module, backend, options, hints)
        fragments, _ = backend.external_binary_pipeline_fragments(compile_hints=hints)
        specs = specs_of(with_demanded(fragments, module.attributes))
        looked_at = wanted()
        upper = upper_part(specs)
        steps = plan(specs[:upper], lambda _: looked_at)
        debug_info = DEBUG_ATTRIBUTE in device_of(module).attributes
        if looked_at or not made_up_for(specs[upper:], debug_info=debug_info):
            steps += one_by_one(specs, upper)
        lowered = run_passes(module, steps, {}, Dumper(func_name or "module", [], "", str))
        device, _ = split(lowered)
        externs = Externs()
        for path in link_libs or ():
            externs.use(Library.read(path, func_name or "module"))
        device_ir = backend.device_ir(device)
        if externs.libraries or calls_externs(device):
            device_ir = link_externs(device_ir, externs, backend)
        unchecked = (llvm.InlineAsmOp, llvm.CallIntrinsicOp)
        if externs.libraries or any(isinstance(op, unchecked) for op in module.walk()):
            module.attributes[RAW_TEXT] = UnitAttr()
        with blamed(module):
            if requested({}, {}):
                from .build.custom_passes import kernel_names, resolve, run_flow

                passes = resolve({}, {})
                if passes is not None:
                    return run_flow(device_ir, backend, options, passes, kernels=kernel_names(device))
            return backend.make_device_code(device_ir, options=options, **where_to_generate(backend, module))


__all__ = ["MlirCompiler", "pipeline_text"]
