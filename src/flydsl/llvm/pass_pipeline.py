"""Pipelines over LLVM IR as text, `default<O2>,function(instcombine,dce)`, and running them in process.

LLVM's own reader of such text is in `opt`. llvmlite has none, but offers some passes one by one; a pipeline of those
alone needs no LLVM on the machine, and gives what `opt` gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flydsl.errors import PassPipelineError
from flydsl.llvm import binding, codegen
from flydsl.llvm.binding import ModuleRef, TargetMachine

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


@dataclass(frozen=True, slots=True)
class Element:
    """One pass, or a group such as `function(...)`."""

    name: str
    options: str = ""
    """What stands between `<` and `>`."""
    children: tuple[Element, ...] | None = None

    def __str__(self) -> str:
        options = f"<{self.options}>" if self.options else ""
        inner = f"({','.join(map(str, self.children))})" if self.children is not None else ""
        return f"{self.name}{options}{inner}"

    def passes(self) -> Iterator[Element]:
        """The passes in it, in order."""
        if self.children is None:
            yield self
        else:
            for child in self.children:
                yield from child.passes()


def parse(text: str) -> tuple[Element, ...]:
    """The elements of a pipeline; a mistake in its form raises `PassPipelineError` showing where it is."""
    elements, at = _parse(text, 0)
    if at != len(text):
        raise _mistake(text, at, "')' closes nothing")
    return elements


def _mistake(text: str, at: int, what: str) -> PassPipelineError:
    return PassPipelineError(f"the pass pipeline cannot be read: {what}\n  {text}\n  {' ' * at}^")


def _parse(text: str, at: int) -> tuple[tuple[Element, ...], int]:
    found: list[Element] = []
    while True:
        at = _skip(text, at)
        match = _NAME.match(text, at)
        if match is None:
            raise _mistake(text, at, "a pass name is expected here")
        name, at = match[0], match.end()
        options = ""
        if text[at : at + 1] == "<":
            close = _closing(text, at)
            options, at = text[at + 1 : close], close + 1
        children = None
        if text[at : at + 1] == "(":
            opened = at
            children, at = _parse(text, at + 1)
            if text[at : at + 1] != ")":
                raise _mistake(text, opened, "'(' is never closed")
            at += 1
        found.append(Element(name, options, children))
        at = _skip(text, at)
        if text[at : at + 1] != ",":
            if at < len(text) and text[at] != ")":
                raise _mistake(text, at, "',' is expected here")
            return tuple(found), at
        at += 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "<") - (text[i] == ">")
        if not depth:
            return i
    raise _mistake(text, at, "'<' is never closed")


# --- in process ---------------------------------------------------------------------------------------

IN_PROCESS = {
    "adce": "add_aggressive_dce_pass",
    "aggressive-instcombine": "add_aggressive_instcombine_pass",
    "always-inline": "add_always_inliner_pass",
    "argpromotion": "add_argument_promotion_pass",
    "break-crit-edges": "add_break_critical_edges_pass",
    "constmerge": "add_constant_merge_pass",
    "dce": "add_dead_code_elimination_pass",
    "deadargelim": "add_dead_arg_elimination_pass",
    "dse": "add_dead_store_elimination_pass",
    "globaldce": "add_global_dead_code_eliminate_pass",
    "globalopt": "add_global_opt_pass",
    "instcombine": "add_instruction_combine_pass",
    "instnamer": "add_instruction_namer_pass",
    "ipsccp": "add_ipsccp_pass",
    "jump-threading": "add_jump_threading_pass",
    "lcssa": "add_lcssa_pass",
    "loop-deletion": "add_loop_deletion_pass",
    "loop-rotate": "add_loop_rotate_pass",
    "loop-reduce": "add_loop_strength_reduce_pass",
    "loop-simplify": "add_loop_simplify_pass",
    "loop-unroll": "add_loop_unroll_pass",
    "lower-atomic": "add_lower_atomic_pass",
    "lower-invoke": "add_lower_invoke_pass",
    "lower-switch": "add_lower_switch_pass",
    "memcpyopt": "add_mem_copy_opt_pass",
    "mergefunc": "add_merge_functions_pass",
    "mergereturn": "add_unify_function_exit_nodes_pass",
    "newgvn": "add_new_gvn_pass",
    "partial-inliner": "add_partial_inliner_pass",
    "reassociate": "add_reassociate_pass",
    "reg2mem": "add_register_to_memory_pass",
    "rpo-function-attrs": "add_rpo_function_attrs_pass",
    "sccp": "add_sccp_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "sink": "add_sinking_pass",
    "sroa": "add_sroa_pass",
    "strip": "add_strip_symbols_pass",
    "strip-dead-debug-info": "add_strip_dead_debug_info_pass",
    "strip-dead-prototypes": "add_strip_dead_prototype_pass",
    "strip-debug-declare": "add_strip_debug_declare_pass",
    "strip-nondebug": "add_strip_non_debug_symbols_pass",
    "tailcallelim": "add_tail_call_elimination_pass",
    "verify": "add_verifier",
}
"""Pass name to the method of llvmlite's module pass manager that adds it with the defaults of `opt`."""

_LEVELS = {"O0": 0, "O1": 1, "O2": 2, "O3": 3}
_GROUPS = ("module", "function")


def not_in_process(elements: Sequence[Element]) -> list[str]:
    """The elements only `opt` can run, each once; empty when the whole pipeline runs in process."""
    found: dict[str, None] = {}
    for element in elements:
        if element.children is not None:
            if element.name not in _GROUPS or element.options:
                found.setdefault(f"{element.name}{f'<{element.options}>' if element.options else ''}(...)")
            found.update(dict.fromkeys(not_in_process(element.children)))
        elif not (element.name == "default" and element.options in _LEVELS) and (
            element.name not in IN_PROCESS or element.options
        ):
            found.setdefault(str(element))
    return list(found)


def run(module: ModuleRef, machine: TargetMachine, elements: Sequence[Element]) -> None:
    """Run a pipeline for which `not_in_process` is empty on a module in place."""
    pending: list[str] = []

    def flush() -> None:
        if pending:
            binding.run_named_passes(module, machine, pending)
            pending.clear()

    for step in (step for element in elements for step in element.passes()):
        if step.name == "default":
            flush()
            codegen.optimize(module, machine, _LEVELS[step.options])
        else:
            pending.append(IN_PROCESS[step.name])
    flush()
