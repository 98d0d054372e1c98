"""`#gpu.address_space`: which memory a memref is in."""

from __future__ import annotations

from xdsl.irdl import irdl_attr_definition

from ..keyword_attr import BracketedKeywordAttr


@irdl_attr_definition
class AddressSpaceAttr(BracketedKeywordAttr):
    """`#gpu.address_space<workgroup>`."""

    name = "gpu.address_space"
    choices = ("global", "workgroup", "private", "constant")
