"""Passes of the user inside a compilation: which ones (`resolve`), on the module (`PassHooks`), on code (`run_flow`).

Nothing of this is imported unless a decorator, hint or environment variable asks for a pass (`pass_options.requested`).
The three entry points:

- `resolve(decorator_options, hints)` gives a `PassConfig`, or None when everything is off. Its `fingerprint()` belongs
  into the cache key; where `cacheable` is False the result must not be stored on disk.
- `PassHooks(config, backend, hints, pipeline)` runs Python passes between the passes of `pipeline`; `around_pass` is
  one such step.
- `run_flow(llvm_ir, backend, options, config)` takes the place of `backend.make_device_code`. A result whose notes have
  `fallback` was made without the passes and must not be cached under this key.
"""

from __future__ import annotations

from .config import PassConfig, Plugin, resolve
from .flow import check_kernels, kernel_names, run_flow
from .python import LLVMModule, PassHooks, around_pass, run_stage

__all__ = [
    "LLVMModule", "PassConfig", "PassHooks", "Plugin", "around_pass", "check_kernels", "kernel_names", "resolve",
    "run_flow", "run_stage",
]  # fmt: skip
