"""Rules of warps and ids, lane by lane: what they emit is run on a machine that knows the instructions."""

from __future__ import annotations

import itertools
import random

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from flydsl.dialects.upstream import gpu
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.lowering.rules import nvvm_rules, rocdl_rules

from .machine import Machine, Value

TARGETS = {"rocdl-64": (rocdl_rules.RULES, 64), "rocdl-32": (rocdl_rules.RULES, 32), "nvvm": (nvvm_rules.RULES, 32)}


def body_of(text: str) -> Block:
    module = LocatedParser(make_context(), text, "kernel").parse_module()
    module.verify()
    assert isinstance(module, ModuleOp)
    (device,) = module.body.block.ops
    assert isinstance(device, gpu.ModuleOp)
    (function,) = device.body.block.ops
    assert isinstance(function, gpu.FuncOp)
    return function.body.block


def function(takes: str, lines: list[str], gives: str) -> Block:
    names, _, types = gives.partition(" : ")
    body = "\n".join([*lines, f"gpu.return {names} : {types}"])
    return body_of(f"gpu.module @m {{ gpu.func @f({takes}) -> ({types}) {{\n{body}\n}} }}")


def values(lanes: int, bits: int, count: int = 0) -> Value:
    if count:
        return [tuple(random.getrandbits(bits) for _ in range(count)) for _ in range(lanes)]
    return [random.getrandbits(bits) for _ in range(lanes)]


def source(mode: str, lane: int, by: int, width: int, lanes: int) -> tuple[int, int]:
    """The lane a shuffle reads from and whether that is its own segment's; elsewhere a lane reads itself."""
    if mode == "idx":
        return (by, 1) if 0 <= by < lanes else (lane, 0)
    at = {"xor": lane ^ by, "up": lane - by, "down": lane + by}[mode]
    inside = at // width == lane // width
    return (at, 1) if inside else (lane, 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
def test_shuffles(target: str, mode: str):
    rules, lanes = TARGETS[target]
    widths = [n for n in (2, 8, 16, 32, 64) if n <= lanes]
    for width, known, asked in itertools.product(widths, (True, False), (True, False)):
        beyond = [] if mode == "xor" else [width, lanes - 1, lanes]
        for by in dict.fromkeys([0, 1, 2, width // 2, width - 1, *beyond]):
            offset = [f"%by = arith.constant {by} : i32"] if known else []
            block = function(
                f"%x: i32{'' if known else ', %by: i32'}",
                [*offset, f"%w = arith.constant {width} : i32", f"%r, %ok = gpu.shuffle {mode} %x, %by, %w : i32"],
                "%r, %ok : i32, i1" if asked else "%r : i32",
            )
            x = values(lanes, 32)
            made = Machine(lanes).run(block, rules, [x] if known else [x, [by] * lanes])
            expected = [source(mode, i, by, width, lanes) for i in range(lanes)]
            assert made[0] == [x[at] for at, _ in expected], (mode, width, by, known)
            assert not asked or made[1] == [ok for _, ok in expected], (mode, width, by, known)


TYPES = {
    "f16": (16, 0),
    "i8": (8, 0),
    "f64": (64, 0),
    "i64": (64, 0),
    "vector<3xi16>": (16, 3),
    "vector<4xf32>": (32, 4),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_values_of_every_width_move_as_words(target: str, type_: str):
    rules, lanes = TARGETS[target]
    x = values(lanes, *TYPES[type_])
    head = ["%by = arith.constant 3 : i32", "%w = arith.constant 16 : i32"]
    block = function(f"%x: {type_}", [*head, f"%r, %ok = gpu.shuffle xor %x, %by, %w : {type_}"], f"%r : {type_}")
    assert Machine(lanes).run(block, rules, [x]) == [[x[i ^ 3] for i in range(lanes)]]
    block = function(
        f"%x: {type_}, %lane: i32",
        [
            f"%r = gpu.subgroup_broadcast %x, specific_lane %lane : {type_}",
            f"%f = gpu.subgroup_broadcast %x, first_active_lane : {type_}",
        ],
        f"%r, %f : {type_}, {type_}",
    )
    assert Machine(lanes).run(block, rules, [x, [lanes - 3] * lanes]) == [[x[-3]] * lanes, [x[0]] * lanes]


@pytest.mark.parametrize("target", TARGETS)
def test_ids(target: str):
    rules, lanes = TARGETS[target]
    names = ("thread_id", "block_id", "block_dim", "grid_dim", "global_id")
    lines = [f"%{name}_{dim} = gpu.{name} {dim}" for name in names for dim in "xyz"]
    lines += ["%lane = gpu.lane_id", "%warp = gpu.subgroup_id : index", "%size = gpu.subgroup_size : index"]
    given = [line.split(" ")[0] for line in lines]
    block = function("", lines, f"{', '.join(given)} : {', '.join(['index'] * len(given))}")
    for size, wave, known in itertools.product(((128, 1, 1), (8, 4, 4), (2, 32, 2)), (0, 1), (False, True)):
        grid = (3, 5, 2)
        machine = Machine(lanes, size, grid, wave, known)
        made = dict(zip(given, machine.run(block, rules, []), strict=True))
        for lane in range(lanes):
            linear = wave * lanes + lane
            thread = linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])
            for axis, dim in enumerate("xyz"):
                found = [made[f"%{name}_{dim}"][lane] for name in names]
                last = grid[axis] - 1
                assert found == [thread[axis], last, size[axis], grid[axis], last * size[axis] + thread[axis]]
            assert (made["%lane"][lane], made["%warp"][lane], made["%size"][lane]) == (lane, wave, lanes)


@pytest.mark.parametrize("target", TARGETS)
def test_votes(target: str):
    rules, lanes = TARGETS[target]
    lines = ['%b = "gpu.ballot"(%p) : (i1) -> i64']
    lines += [f'%{mode[:2]} = "gpu.vote"(%p) <{{mode = "{mode}"}}> : (i1) -> i1' for mode in ("any", "all")]
    block = function("%p: i1", lines, "%b, %an, %al : i64, i1, i1")
    for votes in ([0] * lanes, [1] * lanes, [1] + [0] * (lanes - 1), [0] + [1] * (lanes - 1), values(lanes, 1)):
        word = sum(bit << i for i, bit in enumerate(votes))
        expected = [[word] * lanes, [int(any(votes))] * lanes, [int(all(votes))] * lanes]
        assert Machine(lanes).run(block, rules, [votes]) == expected


@pytest.mark.parametrize("target", TARGETS)
def test_barriers_order_memory(target: str):
    rules, lanes = TARGETS[target]
    machine = Machine(lanes)
    block = body_of("gpu.module @m { gpu.func @f() { gpu.barrier\n gpu.return } }")
    machine.run(block, rules, [])
    around = [("fence", "release", "workgroup"), ("llvm.amdgcn.s.barrier",), ("fence", "acquire", "workgroup")]
    assert machine.events == ([("llvm.nvvm.barrier.cta.sync.aligned.all", "0")] if target == "nvvm" else around)
