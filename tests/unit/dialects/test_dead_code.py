"""Stores to stack memory nobody reads are dead, with what they need; those that are read are not."""

import pytest

from flydsl.ir.dead_code import mark_dead, unread_stores
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context

TEXT = """
func.func @f(%x: f32, %n: i32) -> f32 {{
  %one = arith.constant 1 : i64
  %slot = "llvm.alloca"(%one) <{{elem_type = f32}}> : (i64) -> !llvm.ptr<5>
  %at = "llvm.getelementptr"(%slot, %n) <{{elem_type = f32, rawConstantIndices = array<i32: -2147483648>,
        noWrapFlags = 0 : i32}}> : (!llvm.ptr<5>, i32) -> !llvm.ptr<5>
  %y = arith.addf %x, %x : f32
  "llvm.store"(%y, %at) <{{ordering = 0 : i64}}> : (f32, !llvm.ptr<5>) -> ()
  {more}
  func.return %x : f32
}}
"""
READ = '%v = "llvm.load"(%slot) <{ordering = 0 : i64}> : (!llvm.ptr<5>) -> f32'
ESCAPES = '%i = "llvm.ptrtoint"(%slot) : (!llvm.ptr<5>) -> i32  "test.use"(%i) : (i32) -> ()'


def dead_names(more: str) -> set[str]:
    module = LocatedParser(make_context(allow_unregistered=True), TEXT.format(more=more), "t.mlir").parse_module()
    function = next(iter(module.ops))
    dead = mark_dead(function, dead=unread_stores(function))
    return {op.name for op in function.walk() if id(op) in dead}


def test_a_store_nobody_reads_goes_with_its_address_and_value():
    assert dead_names("") >= {"llvm.store", "llvm.getelementptr", "arith.addf"}


@pytest.mark.parametrize("more", [READ, ESCAPES], ids=["read", "escapes"])
def test_a_store_somebody_may_read_stays(more: str):
    assert not dead_names(more) & {"llvm.store", "llvm.getelementptr", "arith.addf"}
