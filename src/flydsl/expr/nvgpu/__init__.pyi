"""`fx.nvgpu`, for type checkers.

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""

from . import cluster as cluster
from .atoms import (
    CpAsync as CpAsync, CpAsync128b as CpAsync128b, CpAsync32b as CpAsync32b, CpAsync64b as CpAsync64b,
    LdMatrix as LdMatrix, MMA as MMA, StMatrix as StMatrix, WGMMA as WGMMA,
)
from .bulk import (
    BulkLoad as BulkLoad, BulkReduce as BulkReduce, BulkStore as BulkStore, bulk_load as bulk_load,
    bulk_prefetch as bulk_prefetch, bulk_reduce as bulk_reduce, bulk_send as bulk_send, bulk_store as bulk_store,
)
from .convert import from_fp8 as from_fp8, to_fp8 as to_fp8
from .global_memory import (
    LoadGlobal as LoadGlobal, StoreGlobal as StoreGlobal, add_global as add_global, load_global as load_global,
    store_global as store_global,
)
from .sync import (
    MBarrier as MBarrier, any_lane as any_lane, cp_async_commit as cp_async_commit, cp_async_wait as cp_async_wait,
    cp_async_wait_all as cp_async_wait_all, elect as elect, fence_mbarrier_init as fence_mbarrier_init,
    fence_proxy_async as fence_proxy_async, griddepcontrol_launch as griddepcontrol_launch,
    griddepcontrol_wait as griddepcontrol_wait, hold as hold, leader as leader, named_barrier as named_barrier,
    setmaxnreg as setmaxnreg, uniform as uniform, wgmma_commit as wgmma_commit, wgmma_fence as wgmma_fence,
    wgmma_wait as wgmma_wait,
)
from .tma import (
    TMALoad as TMALoad, TMAReduce as TMAReduce, TMAStore as TMAStore, TmaAtom as TmaAtom,
    make_tma_atom as make_tma_atom, tma_commit as tma_commit, tma_wait as tma_wait,
)
