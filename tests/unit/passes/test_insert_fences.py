"""Fences on every path: random kernels of writes, barriers, copies and products, walked as a GPU might run them.

The walk knows the rules of the hardware and nothing of the pass: what must lie between two events of one path. In code
without branches each fence that was put in is needed, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from flydsl.dialects.upstream import gpu, scf
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.passes.fly.fly_nvgpu_insert_fences import insert_fences

EVENTS = {
    "write": ["llvm.store %f, %p : f32, !llvm.ptr<3>"],
    "write anywhere": ["llvm.store %f, %g : f32, !llvm.ptr"],
    "write global": ["llvm.store %f, %d : f32, !llvm.ptr<1>"],
    "add": ["llvm.atomicrmw fadd %p, %f monotonic : !llvm.ptr<3>, f32"],
    "swap": ["llvm.cmpxchg %p, %i, %i monotonic monotonic : !llvm.ptr<3>, i32"],
    "call that writes": ["CALL writes_shared"],
    "barrier": ["gpu.barrier"],
    "arrive": ["CALL synchronizes"],
    "copy": ["CALL reads_shared_async"],
    "fence": ["CALL proxy_fence"],
    "wide fence": ["CALL proxy_fence_all"],
    "product": ["CALL wgmma"],
    "product of registers": ["PRODUCT"],
    "compute": ["COMPUTE"],
    "move": ["MOVE"],
    "spill": ["SPILL"],
    "reload": ["RELOAD"],
    "product fence": ["CALL wgmma_fence"],
    "commit": ["CALL wgmma_commit"],
    "wait": ["CALL wgmma_wait"],
    "init": ["CALL mbarrier_init"],
    "init fence": ["CALL mbarrier_init_fence"],
    "share": ["CALL shares_mbarrier"],
    "peer": ["CALL addresses_peer"],
}
GROUPS = {
    "proxies": ["write", "write", "add", "swap", "call that writes", "barrier", "barrier", "arrive", "copy", "fence"],
    "clusters": ["write", "write anywhere", "write global", "barrier", "copy", "fence", "wide fence", "peer", "add"],
    "products": ["product", "product", "product fence", "commit", "wait", "wait", "write", "barrier", "compute"],
    "registers": [
        *("product of registers", "product of registers", "compute", "move", "spill", "reload", "product", "wait"),
        *("product fence", "product of registers"),
    ],
    "mbarriers": ["init", "init", "share", "barrier", "arrive", "init fence", "write", "copy", "compute"],
    "none of it": ["write", "barrier", "compute", "init", "arrive", "commit"],
    "all": list(EVENTS),
}
"""Kernels of a group have these events."""

INSERTED = {
    "llvm.nvvm.fence.proxy.async.shared_cta": "proxy_fence",
    "llvm.nvvm.fence.proxy.async": "proxy_fence_all",
    "llvm.nvvm.wgmma.fence.sync.aligned": "wgmma_fence",
    "llvm.nvvm.wgmma.commit_group.sync.aligned": "wgmma_commit",
    "llvm.nvvm.fence.mbarrier_init.release.cluster": "mbarrier_init_fence",
}


class Program:
    """The text of a random kernel."""

    def __init__(self, seed: int, group: str, structured: bool):
        self.draw = random.Random(seed)
        self.events = GROUPS[group]
        self.structured = structured
        self.names = 0
        body = self.block(["%f"], 0, self.draw.randint(4, 14))
        self.text = "\n".join([
            "gpu.module @m {",
            "gpu.func @k(%p: !llvm.ptr<3>, %g: !llvm.ptr, %d: !llvm.ptr<1>, %s: !llvm.ptr<5>, %f: f32, %i: i32,"
            " %h: i64, %c: i1, %n: index) kernel {",
            *body,
            "gpu.return",
            "} }",
        ])  # fmt: skip

    def block(self, values: list[str], depth: int, length: int) -> list[str]:
        lines: list[str] = []
        for _ in range(length):
            if self.structured and depth < 2 and self.draw.random() < 0.25:
                lines += self.nested(values, depth)
            else:
                lines += self.event(self.draw.choice(self.events), values)
        return lines

    def nested(self, values: list[str], depth: int) -> list[str]:
        """A branch or a loop; some give a register."""
        self.names += 1
        name, start = f"%v{self.names}", self.draw.choice(values[-3:])
        gives = self.draw.random() < 0.4

        def inner(*more: str) -> list[str]:
            known = [*values, *more]
            lines = self.block(known, depth + 1, self.draw.randint(1, 4))
            return [*lines, f"scf.yield {self.draw.choice(known[-2:])} : f32"] if gives else lines

        kind = "else" if gives else self.draw.choice(["if", "else"])
        if self.draw.random() < 0.4:
            head = f"scf.for %i{self.names} = %n to %n step %n"
            if not gives:
                return [f"{head} {{", *inner(), "}"]
            lines = [f"{name} = {head} iter_args({name}a = {start}) -> (f32) {{", *inner(f"{name}a"), "}"]
        else:
            head = f"{name} = scf.if %c -> (f32) {{" if gives else "scf.if %c {"
            lines = [head, *inner(), *(["} else {", *inner()] if kind == "else" else []), "}"]
        if gives:
            values.append(name)
            if "product of registers" in self.events:
                lines += self.event("product of registers", [name])
        return lines

    def event(self, event: str, values: list[str]) -> list[str]:
        (what,) = EVENTS[event]
        self.names += 1
        # Mostly what was made last: it is what a fence is for.
        new, value = f"%v{self.names}", values[-1] if self.draw.random() < 0.6 else self.draw.choice(values[-3:])
        if what == "COMPUTE":
            values.append(new)
            return [f"{new} = arith.addf {value}, {value} : f32"]
        if what == "MOVE":
            values.append(new)
            return [
                f"{new}u = llvm.bitcast {value} : f32 to i32",
                f"{new} = llvm.bitcast {new}u : i32 to f32",
            ]
        if what == "SPILL":
            return [f"llvm.store {value}, %s : f32, !llvm.ptr<5>"]
        if what == "RELOAD":
            values.append(new)
            return [f"{new} = llvm.load %s : !llvm.ptr<5> -> f32"]
        if what == "PRODUCT":
            effects = '{fly_nvgpu.effects = ["wgmma", "wgmma_registers"]}'
            return [f'llvm.call_intrinsic "llvm.test.wgmma"({value}, %h) {effects} : (f32, i64) -> ()']
        if what.startswith("CALL "):
            word = what.removeprefix("CALL ")
            return [f'llvm.call_intrinsic "llvm.test.{word}"(%h) {{fly_nvgpu.effects = ["{word}"]}} : (i64) -> ()']
        if what.startswith(("llvm.atomicrmw", "llvm.cmpxchg")):
            return [f"{new} = {what}"]
        return [what]


def fenced(text: str) -> Block:
    module = LocatedParser(make_context(), text, "kernel").parse_module()
    module.verify()
    insert_fences(module)
    module.verify()
    (device,) = module.body.block.ops
    assert isinstance(device, gpu.ModuleOp)
    (kernel,) = device.body.block.ops
    assert isinstance(kernel, gpu.FuncOp)
    return kernel.body.block


def all_ops(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from all_ops(inner)


def name_of(op: Operation) -> str:
    """What an op does: its intrinsic, else its name."""
    intrinsic = op.properties.get("intrin")
    return intrinsic.data.removeprefix("llvm.test.") if isinstance(intrinsic, StringAttr) else op.name


def paths(block: Block, draw: random.Random) -> Iterator[Operation]:
    """The ops of one way through a block."""
    for op in block.ops:
        inner = [region.block for region in op.regions if region.blocks]
        if isinstance(op, scf.IfOp):
            taken = draw.randrange(2)
            if taken < len(inner):
                yield from paths(inner[taken], draw)
        elif inner:
            yield op
            for _ in range(draw.randrange(4)):
                yield from paths(inner[0], draw)
        else:
            yield op


PLAIN_MOVES = {"llvm.bitcast"}


class Walk:
    """A thread's way through a kernel, and what the hardware wants of it."""

    def __init__(self, names: set[str]):
        self.peers = "addresses_peer" in names
        self.asynchronous = bool(names & {"wgmma", "reads_shared_async"})
        self.shared = "shares_mbarrier" in names
        self.dirty = self.fenced = self.open = self.made = False
        self.fresh: set[SSAValue] = set()
        self.spilled = False
        self.wrong: list[str] = []

    def ask(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    def step(self, op: Operation) -> None:
        name = name_of(op)
        word = INSERTED.get(name, name)
        if name in ("llvm.store", "llvm.atomicrmw", "llvm.cmpxchg"):
            pointer = next(x for x in op.operands if "ptr" in str(x.type))
            places = ("ptr<3>", "ptr") if self.peers else ("ptr<3>",)
            self.dirty |= str(pointer.type).removeprefix("!llvm.") in places
            self.spilled |= str(pointer.type) == "!llvm.ptr<5>" and op.operands[0] in self.fresh
        elif name == "llvm.load":
            self.fresh.update(op.results if self.spilled else ())
        elif name in PLAIN_MOVES:
            self.pass_on(op.operands[0], op.results[0])
        elif isinstance(op, scf.ForOp):
            for given, inside, result in zip(op.iter_args, op.body.block.args[1:], op.results, strict=True):
                self.pass_on(given, inside)
                self.pass_on(given, result)
        elif name == "scf.yield" and op.operands:
            (given,), around = op.operands, op.parent_op()
            assert around is not None
            self.pass_on(given, around.results[0])
            if isinstance(around, scf.ForOp):
                self.pass_on(given, around.body.block.args[1])
        elif op.results:
            self.fresh.update(op.results)
        elif self.asynchronous or word.startswith(("mbarrier", "shares")):
            self.instruction(op, word)
        if word in ("gpu.barrier", "synchronizes", "shares_mbarrier") and self.shared:
            self.ask(not self.made, "an mbarrier is used before a fence has made it visible")

    def pass_on(self, given: SSAValue, to: SSAValue) -> None:
        """One register becomes another without anything being computed."""
        if given in self.fresh:
            self.fresh.add(to)
        else:
            self.fresh.discard(to)

    def instruction(self, op: Operation, word: str) -> None:
        if word == "writes_shared":
            self.dirty = True
        elif word == "proxy_fence_all" or (word == "proxy_fence" and not self.peers):
            self.dirty = False
        elif word in ("gpu.barrier", "synchronizes", "reads_shared_async"):
            self.ask(not self.dirty, f"{word} without a fence of the proxies")
        elif word == "wgmma_fence":
            self.fenced = True
            self.fresh.clear()
            self.spilled = False
        elif word == "wgmma_commit":
            self.fenced = self.open = False
        elif word == "wgmma":
            self.ask(self.fenced, "a batch of products without its fence")
            self.ask(op.operands[0] not in self.fresh, "a product of registers that were just computed")
            self.open = True
        elif word == "wgmma_wait":
            self.ask(not self.open, "a wait for products of no group")
            self.fenced = False
        elif word == "mbarrier_init":
            self.made = True
        elif word == "mbarrier_init_fence":
            self.made = False

    def end(self) -> None:
        self.ask(not (self.made and self.shared), "an mbarrier that is never made visible")


def complaints(ops: Sequence[Operation], names: set[str]) -> list[str]:
    walk = Walk(names)
    for op in ops:
        walk.step(op)
    walk.end()
    return walk.wrong


@pytest.mark.parametrize("group", GROUPS)
def test_every_path_has_its_fences(group: str):
    broken = 0
    for seed in range(24):
        text = Program(seed, group, structured=True).text
        body = fenced(text)
        names = {name_of(op) for op in all_ops(body)}
        draw = random.Random(seed)
        ways = [list(paths(body, draw)) for _ in range(12)]
        for way in ways:
            assert complaints(way, names) == [], text
            # What the kernel was before: the walk does find fault with some.
            broken += bool(complaints([op for op in way if name_of(op) not in INSERTED], names))
        if not names & {"wgmma", "reads_shared_async", "shares_mbarrier"}:
            assert not names & INSERTED.keys(), text
        assert not any("fly_nvgpu.effects" in op.attributes for op in all_ops(body))
    assert broken > 10 or group == "none of it"


@pytest.mark.parametrize("group", GROUPS)
def test_without_branches_no_fence_too_many(group: str):
    """Each is missed by somebody when it is taken out; those that authors write have other names here."""
    for seed in range(30):
        text = Program(1000 + seed, group, structured=False).text
        ops = list(fenced(text).ops)
        names = {name_of(op) for op in ops}
        assert complaints(ops, names) == [], text
        for i, op in enumerate(ops):
            if name_of(op) in INSERTED:
                assert complaints([*ops[:i], *ops[i + 1 :]], names), (text, str(op))
