"""LLVM IR straight from the upper dialects is that of the passes one by one: generated modules with every op and type.

The passes run as listed, and once more with the module printed and parsed again between any two of them.
"""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.printer import Printer

from flydsl.compiler.backends import get_backend
from flydsl.compiler.build.driver import specs_of
from flydsl.dialects.upstream import gpu
from flydsl.errors import FlyDSLError
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm import codegen
from flydsl.llvm.text.abi_amdgpu import AmdgpuAbi
from flydsl.llvm.text.abi_nvptx import NvptxAbi
from flydsl.llvm.text.debug_info import ATTRIBUTE
from flydsl.llvm.text.memory_ops import MEMORY_OPS
from flydsl.lowering.rules.sink import refused
from flydsl.passes.fuse import upper_part

from .llvm_text import normalised

TARGETS = {"rocm": "gfx942", "cuda": "sm_90"}
ABIS = {"rocm": AmdgpuAbi, "cuda": NvptxAbi}
stacks = pytest.mark.parametrize("stack", TARGETS)


def parse(text: str) -> ModuleOp:
    return LocatedParser(make_context(), text, "generated.mlir").parse_module()


def printed(module: ModuleOp) -> str:
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def device_of(module: ModuleOp) -> gpu.ModuleOp:
    return next(op for op in module.ops if isinstance(op, gpu.ModuleOp))


def lowered(text: str, stack: str, *, reread: bool = False, debug: bool = False) -> ModuleOp:
    """The module after every pass from the upper dialects on."""
    hints = {"debug_info": True} if debug else {}
    backend = get_backend(stack, arch=TARGETS[stack])
    specs = specs_of(backend.pipeline_fragments(compile_hints=hints)[:-1])
    tail = specs[upper_part(specs) :]
    assert tail
    module = parse(text)
    for spec in tail:
        module = spec.make().run(module)
        module.verify()
        if reread:
            module = parse(printed(module))
    return module


def direct(text: str, stack: str, debug: bool = False) -> str:
    device = device_of(parse(text))
    if debug:
        device.attributes[ATTRIBUTE] = UnitAttr()
    return get_backend(stack, arch=TARGETS[stack]).device_ir(device)


def check(text: str, stack: str, rereads: tuple[bool, ...] = (False, True)) -> str:
    """Both ways agree; give the text."""
    backend = get_backend(stack, arch=TARGETS[stack])
    straight = direct(text, stack)
    for reread in rereads:
        by_passes = backend.device_ir(device_of(lowered(text, stack, reread=reread)))
        assert normalised(by_passes) == normalised(straight)
    return straight


def assemble(ir: str, stack: str) -> str:
    arch = TARGETS[stack]
    target = codegen.DeviceTarget.amdgpu(arch) if stack == "rocm" else codegen.DeviceTarget.nvptx(arch, "+ptx83")
    return codegen.compile_device(ir, target, 2).asm


# --- every op -----------------------------------------------------------------------------------------------------

INTS = ("i1", "i8", "i16", "i32", "i64", "index", "vector<4xi32>", "vector<2xi64>", "vector<3xi16>")
FLOATS = ("f16", "bf16", "f32", "f64", "vector<4xf32>", "vector<2xf16>", "vector<2xf64>")
FLAGS = ("", "#arith.fastmath<none>", "#arith.fastmath<nnan,contract>", "#arith.fastmath<fast>")
OVERFLOW = ("", "#arith.overflow<none>", "#arith.overflow<nsw>", "#arith.overflow<nsw,nuw>")
Op = tuple[str, tuple[str, ...], tuple[str, ...], str]
"""Name, operand types, result types, properties."""


def lanes(type_: str) -> int:
    found = re.match(r"vector<(\d+)x", type_)
    return int(found[1]) if found else 0


def elem(type_: str) -> str:
    return re.sub(r"vector<[\dx]+x(\w+)>", r"\1", type_)


def like(type_: str, element: str) -> str:
    return f"vector<{lanes(type_)}x{element}>" if lanes(type_) else element


def width(type_: str) -> int:
    e = elem(type_)
    return 64 if e == "index" else int(re.sub(r"\D", "", e))


def props(**given: str) -> str:
    held = ", ".join(f"{k} = {v}" for k, v in given.items() if v)
    return f"<{{{held}}}>" if held else ""


def arith_ops() -> Iterator[Op]:
    for i, t in enumerate(INTS):
        for name in ("addi", "subi", "muli", "shli"):
            yield f"arith.{name}", (t, t), (t,), props(overflowFlags=OVERFLOW[i % 4])
        for name in (
            "divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui", "andi", "ori", "xori", "shrsi",
            "shrui", "minsi", "maxsi", "minui", "maxui",
        ):  # fmt: skip
            yield f"arith.{name}", (t, t), (t,), ""
        yield "arith.cmpi", (t, t), (like(t, "i1"),), props(predicate=f"{i} : i64")
        yield "arith.select", ("i1", t, t), (t,), ""
        if elem(t) != "index":
            yield "arith.addui_extended", (t, t), (t, like(t, "i1")), ""
            for name in ("mulsi_extended", "mului_extended"):
                yield f"arith.{name}", (t, t), (t, t), ""
            if width(t) > 8:
                yield "arith.trunci", (t,), (like(t, "i8"),), ""
            if width(t) < 64:
                yield "arith.extsi", (t,), (like(t, "i64"),), ""
                yield "arith.extui", (t,), (like(t, "i64"),), ""
            if width(t) > 1:
                for name in ("sitofp", "uitofp"):
                    yield f"arith.{name}", (t,), (like(t, "f32"),), ""
            if not lanes(t):
                for name in ("index_cast", "index_castui"):
                    yield f"arith.{name}", (t,), ("index",), ""
                    yield f"arith.{name}", ("index",), (t,), ""
    for i, t in enumerate(FLOATS):
        flags = props(fastmath=FLAGS[i % 4])
        for name in (
            "addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf",
        ):  # fmt: skip
            yield f"arith.{name}", (t, t), (t,), flags
        yield "arith.negf", (t,), (t,), flags
        yield (
            "arith.cmpf", (t, t), (like(t, "i1"),), props(predicate=f"{i + 1} : i64", fastmath=FLAGS[i % 4] or FLAGS[1])
        )  # fmt: skip
        yield "arith.select", (like(t, "i1"), t, t), (t,), ""
        for name in ("fptosi", "fptoui"):
            yield f"arith.{name}", (t,), (like(t, "i32"),), ""
        yield "arith.bitcast", (t,), (like(t, f"i{width(t)}"),), ""
        if width(t) < 64:
            yield "arith.extf", (t,), (like(t, "f64"),), ""
        if width(t) > 16:
            yield "arith.truncf", (t,), (like(t, "bf16"),), ""
        yield "ub.poison", (), (t,), props(value="#ub.poison")


def math_ops(stack: str) -> Iterator[Op]:
    abi = ABIS[stack]
    for cls, rule in abi.rules.items():
        name = cls.name.removeprefix("math.")
        if not cls.name.startswith("math.") or rule is refused:
            continue
        if name in ("ctpop", "ctlz", "cttz", "absi"):
            yield from ((cls.name, (t,), (t,), "") for t in INTS if elem(t) not in ("i1", "index"))
            continue
        count = {"copysign": 2, "fma": 3, "clampf": 3, "atan2": 2, "powf": 2}.get(name, 1)
        for i, t in enumerate(FLOATS):
            if name == "clampf" and t not in ("f32", "f16"):
                continue
            if name.startswith("is"):
                yield cls.name, (t,), (like(t, "i1"),), ""
            else:
                yield cls.name, (t,) * count, (t,), props(fastmath=FLAGS[i % 4])


def vector_ops() -> Iterator[Op]:
    here, there = "static_position = array<i64: 1>", "static_position = array<i64: -9223372036854775808>"
    for t in (*(t for t in (*INTS, *FLOATS) if lanes(t)), "vector<4xindex>"):
        e, n = elem(t), lanes(t)
        yield "vector.extract", (t,), (e,), f"<{{{here}}}>"
        yield "vector.extract", (t, "index"), (e,), f"<{{{there}}}>"
        yield "vector.insert", (e, t), (t,), f"<{{{here}}}>"
        yield "vector.insert", (e, t, "index"), (t,), f"<{{{there}}}>"
        yield "vector.broadcast", (e,), (t,), ""
        yield "vector.from_elements", (e,) * n, (t,), ""
        yield "vector.to_elements", (t,), (e,) * n, ""
        mask = ", ".join(str((5 * i + 1) % (2 * n)) for i in range(n))
        yield "vector.shuffle", (t, t), (t,), f"<{{mask = array<i64: {mask}>}}>"
        yield "vector.shuffle", (t, f"vector<2x{e}>"), (f"vector<3x{e}>",), f"<{{mask = array<i64: 0, {n}, {n + 1}>}}>"
        slice_ = "offsets = [1], sizes = [1], strides = [1]"
        yield "vector.extract_strided_slice", (t,), (f"vector<1x{e}>",), f"<{{{slice_}}}>"
        yield (
            "vector.insert_strided_slice", (f"vector<1x{e}>", t), (t,), "<{offsets = [1], strides = [1]}>"
        )  # fmt: skip
        if e == "index":
            continue
        yield "vector.bitcast", (t,), (f"vector<{n * width(t) // 8}xi8>",), ""
        kinds = ("add", "mul") + (
            ("minnumf", "maxnumf", "minimumf", "maximumf")
            if "f" in e
            else ("and", "or", "xor", "minsi", "maxsi", "minui", "maxui")
        )
        for kind in kinds:
            text = f"<{{kind = #vector.kind<{kind}>, fastmath = #arith.fastmath<none>}}>"
            yield "vector.reduction", (t,), (e,), text
            yield "vector.reduction", (t, e), (e,), text
        if "f" in e:
            yield "vector.fma", (t, t, t), (t,), ""
    yield "vector.shape_cast", ("vector<2x3xf32>",), ("vector<6xf32>",), ""
    yield "vector.transpose", ("vector<2x3xf32>",), ("vector<3x2xf32>",), "<{permutation = array<i64: 1, 0>}>"
    yield "vector.extract", ("vector<2x3xf32>",), ("vector<3xf32>",), f"<{{{here}}}>"
    yield "vector.insert", ("vector<3xf32>", "vector<2x3xf32>"), ("vector<2x3xf32>",), f"<{{{here}}}>"
    yield "vector.broadcast", ("vector<3xf32>",), ("vector<2x3xf32>",), ""
    window = "offsets = [1, 0], sizes = [1, 2], strides = [1, 1]"
    yield "vector.extract_strided_slice", ("vector<2x3xf32>",), ("vector<1x2xf32>",), f"<{{{window}}}>"


def gpu_ops(stack: str) -> Iterator[Op]:
    for kind in ("thread_id", "block_id", "block_dim", "grid_dim", "global_id"):
        yield from ((f"gpu.{kind}", (), ("index",), f"<{{dimension = #gpu<dim {d}>}}>") for d in "xyz")
    for kind in ("lane_id", "subgroup_size", "subgroup_id"):
        yield f"gpu.{kind}", (), ("index",), ""
    for t in ("i32", "i8", "f16", "bf16", "f32", "f64", "i64", "vector<4xf16>", "vector<3xi32>"):
        for mode in ("xor", "up", "down", "idx"):
            yield "gpu.shuffle", (t, "i32", "i32"), (t, "i1"), f"<{{mode = #gpu<shuffle_mode {mode}>}}>"
        yield "gpu.subgroup_broadcast", (t,), (t,), ""
        yield "gpu.subgroup_broadcast", (t, "i32"), (t,), ""
    yield "gpu.ballot", ("i1",), ("i64",), ""
    for mode in ("any", "all"):
        yield "gpu.vote", ("i1",), ("i1",), f'<{{mode = "{mode}"}}>'
    yield "gpu.barrier", (), (), ""
    if stack == "cuda":
        yield "gpu.printf", ("i32", "f32", "i8", "f64"), (), '<{format = "%d %f %d %f\\n"}>'
        for memory in ("", 'memory = "none"', 'memory = "read"', 'memory = "write"'):
            text = 'text = "add.u32 $0, $1, 1;", constraints = "=r,r"'
            yield "fly_nvgpu.asm", ("i32",), ("i32",), f"<{{{text}{', ' if memory else ''}{memory}}}>"
    yield "func.call", ("i32", "f32"), ("f32",), "<{callee = @outside}>"


def all_ops(stack: str) -> list[Op]:
    return [*arith_ops(), *math_ops(stack), *vector_ops(), *gpu_ops(stack)]


class Program:
    """A kernel being written: values by type, each result stored so that it lives."""

    def __init__(self, chance: random.Random):
        self.lines: list[str] = []
        self.values: dict[str, list[str]] = {}
        self._chance, self._count = chance, 0

    def name(self) -> str:
        self._count += 1
        return f"%x{self._count}"

    def value(self, type_: str) -> str:
        """A value of a type, loaded where there is none yet."""
        if type_ not in self.values:
            found = self.name()
            kept = "i64" if type_ == "index" else type_.replace("index", "i64")
            shown = kept if not re.match(r"vector<\d+x\d+x", kept) else "vector<6xf32>"
            raw = found if shown == type_ else f"{found}r"
            self.lines.append(f'{raw} = "llvm.load"(%p) <{{ordering = 0 : i64}}> : (!llvm.ptr<1>) -> {shown}')
            if raw != found:
                cast = "vector.shape_cast" if shown.startswith("vector<6") else "arith.index_cast"
                self.lines.append(f'{found} = "{cast}"({raw}) : ({shown}) -> {type_}')
            self.values[type_] = [found]
        return self._chance.choice(self.values[type_])

    def op(self, op: Op) -> None:
        name, takes, gives, given = op
        operands = [self.value(t) for t in takes]
        results = [self.name() for _ in gives]
        head = f"{', '.join(results)} = " if results else ""
        self.lines.append(
            f'{head}"{name}"({", ".join(operands)}) {given} : ({", ".join(takes)}) -> ({", ".join(gives)})'
        )
        for result, type_ in zip(results, gives, strict=True):
            self.values[type_].append(result) if type_ in self.values else self.values.update({type_: [result]})
            if self._chance.random() < 0.8:
                self.store(result, type_)

    def store(self, value: str, type_: str) -> None:
        if "index" in type_ or re.match(r"vector<\d+x\d+x", type_):
            cast = "arith.index_cast" if "index" in type_ else "vector.shape_cast"
            n = re.match(r"vector<(\d+)x(\d+)x", type_)
            kept = type_.replace("index", "i64") if n is None else f"vector<{int(n[1]) * int(n[2])}xf32>"
            made = self.name()
            self.lines.append(f'{made} = "{cast}"({value}) : ({type_}) -> {kept}')
            value, type_ = made, kept
        self.lines.append(f'"llvm.store"({value}, %p) <{{ordering = 0 : i64}}> : ({type_}, !llvm.ptr<1>) -> ()')

    def module(self, attributes: str = "") -> str:
        body = "\n".join(self.lines)
        return (
            "gpu.module @kernels {\nfunc.func private @outside(i32, f32) -> f32\n"
            f"gpu.func @k(%p: !llvm.ptr<1>, %n: i32) kernel {attributes}{{\n{body}\ngpu.return\n}}\n}}\n"
        )


def few_types(ops: list[Op], count: int = 3) -> list[Op]:
    """The first few of each name."""
    seen = Counter[str]()
    return [op for op in ops if seen.update([op[0]]) or seen[op[0]] <= count]


KNOWN = "attributes {known_block_size = array<i32: 64, 2, 1>} "


@stacks
@pytest.mark.parametrize("seed", range(2))
def test_every_op(stack: str, seed: int):
    chance = random.Random(seed)
    program = Program(chance)
    listed = all_ops(stack)
    # What is read again between passes has each op with a few of its types: parsing takes most of the time.
    chosen = few_types(chance.sample(listed, len(listed))) if seed else chance.sample(listed, len(listed))
    # Twice, in any order: equal ops are shared the same way.
    for op in chosen + chance.sample(chosen, len(chosen) // 3):
        program.op(op)
    ir = check(program.module(KNOWN if seed else ""), stack, rereads=(bool(seed),))
    assert ir.count("\n") > (500 if seed else 1000)
    covered = {op[0] for op in listed} | {op.name for op in MEMORY_OPS} | {"arith.constant"}
    table = {cls.name for cls, rule in ABIS[stack].rules.items() if rule is not refused}
    table -= {"gpu.printf"} if stack == "rocm" else set()  # refused by its rule
    assert {name for name in table - covered if not name.startswith("scf.")} == set()


# --- control flow -------------------------------------------------------------------------------------------------


class Flow:
    """Random loops and conditionals over i32 values."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%f{self.count}"

    def emit(self, text: str) -> str:
        made = self.name()
        self.lines.append(f"{made} = {text}")
        return made

    def statements(self, depth: int, values: list[str]) -> str:
        """A few statements; the value of the last."""
        values = list(values)
        for _ in range(self.r.randint(1, 4)):
            values.append(self.statement(depth, values))
        return values[-1]

    def statement(self, depth: int, values: list[str]) -> str:
        a, b = self.r.choice(values), self.r.choice(values)
        kind = self.r.choice(
            ("op", "op", "load", "store", "for", "if", "plain if", "while") if depth else ("op", "load")
        )
        if kind == "op":
            return self.emit(f"arith.{self.r.choice(('addi', 'muli', 'xori', 'divsi', 'ceildivsi'))} {a}, {b} : i32")
        if kind == "load":
            return self.emit('"llvm.load"(%p) <{ordering = 0 : i64, alignment = 4 : i64}> : (!llvm.ptr<1>) -> i32')
        if kind == "store":
            self.lines.append(f'"llvm.store"({a}, %p) <{{alignment = 4 : i64}}> : (i32, !llvm.ptr<1>) -> ()')
            return b
        made = self.name()
        if kind == "for":
            i, x, one = self.name(), self.name(), self.r.choice(values)
            self.lines.append(f"{made} = scf.for {i} = {a} to {b} step {one} iter_args({x} = {a}) -> (i32) : i32 {{")
            # What the loop adds to its index anyway is an expression of the body too.
            values = [*values, i, x, self.emit(f"arith.addi {i}, {one} : i32")]
            self.lines.append(f"scf.yield {self.statements(depth - 1, values)} : i32\n}}")
            return made
        if kind == "while":
            x, y = self.name(), self.name()
            self.lines.append(f"{made} = scf.while ({x} = {a}) : (i32) -> i32 {{")
            before = self.statements(depth - 1, [*values, x])
            cond = self.emit(f"arith.cmpi slt, {x}, {before} : i32")
            self.lines.append(f"scf.condition({cond}) {before} : i32\n}} do {{\n^bb0({y}: i32):")
            self.lines.append(f"scf.yield {self.statements(depth - 1, [*values, y])} : i32\n}}")
            return made
        cond = self.emit(f"arith.cmpi slt, {a}, {b} : i32")
        if kind == "plain if":
            self.lines.append(f"scf.if {cond} {{")
            inner = self.statements(depth - 1, values)
            self.lines.append(f'"llvm.store"({inner}, %p) <{{alignment = 4 : i64}}> : (i32, !llvm.ptr<1>) -> ()\n}}')
            return a
        self.lines.append(f"{made} = scf.if {cond} -> (i32) {{")
        self.lines.append(f"scf.yield {self.statements(depth - 1, values)} : i32\n}} else {{")
        self.lines.append(f"scf.yield {self.statements(depth - 1, values)} : i32\n}}")
        return made

    def module(self) -> str:
        self.lines.append("%t = gpu.thread_id x\n%i = arith.index_cast %t : index to i32")
        for _ in range(4):
            result = self.statements(3, ["%n", "%i"])
            self.lines.append(f'"llvm.store"({result}, %p) <{{alignment = 4 : i64}}> : (i32, !llvm.ptr<1>) -> ()')
        body = "\n".join(self.lines)
        return f"gpu.module @kernels {{\ngpu.func @k(%p: !llvm.ptr<1>, %n: i32) kernel {{\n{body}\ngpu.return\n}}\n}}\n"


@pytest.mark.covering
@stacks
@pytest.mark.parametrize("seed", range(8))
def test_control_flow(stack: str, seed: int):
    check(Flow(seed).module(), stack)


@stacks
def test_lines(stack: str):
    """With line tables every instruction has the same place both ways."""
    text = Flow(5).module()
    straight = direct(text, stack, debug=True)
    assert straight.count("!DILocation(") > 30
    by_passes = get_backend(stack, arch=TARGETS[stack]).device_ir(device_of(lowered(text, stack, debug=True)))
    assert normalised(by_passes) == normalised(straight)


@stacks
def test_a_rule_that_is_missing_is_named(stack: str):
    text = (
        "gpu.module @m {\ngpu.func @k(%p: !llvm.ptr<1>, %x: f32) kernel {\n%y = math.erf %x : f32\n"
        "llvm.store %y, %p : f32, !llvm.ptr<1>\ngpu.return\n}\n}\n"
    )
    for way in (direct, lowered):
        with pytest.raises(FlyDSLError, match="failed to legalize operation 'math.erf'"):
            way(text, stack)


# --- shuffles -----------------------------------------------------------------------------------------------------


def shuffled(mode: str, by: int, c: int, values: list[int]) -> list[int]:
    """`shfl.sync` with a whole mask on 32 lanes as the PTX document defines it: `c` is clamp and segment mask."""
    found: list[int] = []
    for lane, own in enumerate(values):
        clamp, segment = c & 31, c >> 8 & 31
        top = lane & segment | clamp & ~segment & 31
        first = lane & segment
        if mode == "up":
            j, inside = lane - by, lane - by >= top
        elif mode == "down":
            j, inside = lane + by, lane + by <= top
        elif mode == "bfly":
            j, inside = lane ^ by, lane ^ by <= top
        else:
            j, inside = first | by & ~segment & 31, (first | by & ~segment & 31) <= top
        found.append(values[j] if inside else own)
    return found


@pytest.mark.parametrize("mode", ["up", "down", "xor", "idx"])
@pytest.mark.parametrize("by", [0, 1, 5, 16, 31])
def test_shuffles_of_a_warp(mode: str, by: int):
    """The operands of the instruction in PTX, executed by the document's rules, give what `gpu.shuffle` promises."""
    text = (
        "gpu.module @m {\ngpu.func @k(%p: !llvm.ptr<1>, %x: i32) kernel {\n"
        f"%o = arith.constant {by} : i32\n%w = arith.constant 32 : i32\n"
        f"%r, %v = gpu.shuffle {mode} %x, %o, %w : i32\nllvm.store %r, %p : i32, !llvm.ptr<1>\ngpu.return\n}}\n}}\n"
    )
    for ir in (direct(text, "cuda"), get_backend("cuda", arch="sm_90").device_ir(device_of(lowered(text, "cuda")))):
        (found,) = re.findall(
            r"shfl\.sync\.(\w+)\.b32 \s*%r\d+(?:\|%p\d+)?, %r\d+, (\d+), (\d+), -1", assemble(ir, "cuda")
        )
        values = random.Random(by).sample(range(1000), 32)
        got = shuffled(found[0], int(found[1]), int(found[2]), values)
        want = []
        for lane in range(32):
            source = {"up": lane - by, "down": lane + by, "xor": lane ^ by, "idx": by}[mode]
            want.append(values[source] if 0 <= source < 32 else values[lane])
        assert got == want
