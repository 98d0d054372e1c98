"""`fx.nvgpu`: matrix instructions, asynchronous copies, barriers and warp roles of NVIDIA GPUs.

Names resolve on first use, so importing this package loads no compiler. What an architecture lacks is refused when the
kernel is lowered for it, before any code is generated.
"""

from __future__ import annotations

from importlib import import_module

_MODULES: dict[str, str] = {
    "atoms": "MMA WGMMA CpAsync CpAsync32b CpAsync64b CpAsync128b LdMatrix StMatrix",
    "convert": "from_fp8 to_fp8",
    "global_memory": "LoadGlobal StoreGlobal add_global load_global store_global",
    "bulk": "bulk_load bulk_send bulk_store bulk_reduce bulk_prefetch BulkLoad BulkStore BulkReduce",
    "sync": (
        "MBarrier cp_async_commit cp_async_wait cp_async_wait_all fence_proxy_async fence_mbarrier_init named_barrier "
        "any_lane elect leader setmaxnreg uniform wgmma_fence wgmma_commit wgmma_wait hold griddepcontrol_wait "
        "griddepcontrol_launch"
    ),
    "tma": "TMALoad TMAStore TMAReduce TmaAtom make_tma_atom tma_commit tma_wait",
}
_SUBMODULES = ("cluster",)
_WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is not None:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        from difflib import get_close_matches

        close = get_close_matches(name, _WHERE, 1)
        from ...errors import DSLAttributeError

        hint = f"; did you mean fx.nvgpu.{close[0]}?" if close else ""
        raise DSLAttributeError(f"flydsl.expr.nvgpu has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_WHERE, *_SUBMODULES})
