"""Further ids of `gpu`: of the thread in the grid, of warps, of clusters; upstream's text forms."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from . import IdOp, NullaryOp


@irdl_op_definition
class GlobalIdOp(IdOp):
    """Index of the thread in the grid."""

    name = "gpu.global_id"


@irdl_op_definition
class ClusterIdOp(IdOp):
    """Index of the cluster in the grid."""

    name = "gpu.cluster_id"


@irdl_op_definition
class ClusterDimOp(IdOp):
    """Clusters per grid."""

    name = "gpu.cluster_dim"


@irdl_op_definition
class ClusterBlockIdOp(IdOp):
    """Index of the block in its cluster."""

    name = "gpu.cluster_block_id"


@irdl_op_definition
class ClusterDimBlocksOp(IdOp):
    """Blocks per cluster."""

    name = "gpu.cluster_dim_blocks"


@irdl_op_definition
class SubgroupIdOp(NullaryOp):
    """Index of the warp or wave in its block."""

    name = "gpu.subgroup_id"


@irdl_op_definition
class NumSubgroupsOp(NullaryOp):
    """Warps or waves of a block."""

    name = "gpu.num_subgroups"


ID_OPS = [GlobalIdOp, ClusterIdOp, ClusterDimOp, ClusterBlockIdOp, ClusterDimBlocksOp, SubgroupIdOp, NumSubgroupsOp]
"""The ops of this file."""
