"""Which passes run as one, and which the writer of LLVM IR makes up for: a kernel of any stack takes the short way."""

from __future__ import annotations

import pytest

from flydsl.compiler.backends import get_backend
from flydsl.compiler.build.driver import specs_of
from flydsl.passes.fuse import made_up_for, plan, upper_part
from flydsl.passes.pipeline import PassSpec

STACKS = {"rocm": "gfx942", "cuda": "sm_90a", "cpu": "gfx942"}
LINES = "ensure-debug-info-scope-on-llvm-func"


def pipeline(stack: str, *, debug_info: bool = False) -> list[PassSpec]:
    hints = {"debug_info": True} if debug_info else {}
    fragments, _ = get_backend(stack, arch=STACKS[stack]).external_binary_pipeline_fragments(compile_hints=hints)
    return list(specs_of(fragments))


@pytest.mark.parametrize("debug_info", [False, True])
@pytest.mark.parametrize("stack", STACKS)
def test_the_usual_pipelines(stack: str, debug_info: bool):
    """One walk to the upper dialects, behind it the writer; unless a conversion is missing, or a pass in between."""
    specs = pipeline(stack, debug_info=debug_info)
    upper = upper_part(specs)
    steps = plan(specs[:upper], lambda i: False)
    assert [step.spec.name for step in steps].count("fly-to-llvm") == 1 and len(steps) < upper
    assert [at for step in steps for at in range(step.first, step.last + 1)] == list(range(upper))
    rest = specs[upper:]
    assert made_up_for(rest, debug_info=debug_info)
    assert bool(rest) is (stack != "cpu")  # where the upper passes are all
    for i, spec in enumerate(rest):
        fewer = rest[:i] + rest[i + 1 :]
        if spec.name == "cse":
            assert made_up_for(fewer, debug_info=debug_info)
        if not spec.path and not spec.name.endswith("attach-target"):
            assert not made_up_for(fewer, debug_info=debug_info), spec
            assert not made_up_for([*fewer, *rest[:1]], debug_info=debug_info), spec
        assert not made_up_for([*rest[:i], PassSpec("canonicalize"), *rest[i:]], debug_info=debug_info)
    # Line tables are written where they are asked for, and nowhere else.
    assert not rest or not made_up_for(rest, debug_info=not debug_info)


def test_whoever_looks_ends_a_walk():
    specs = pipeline("rocm")
    upper = upper_part(specs)
    whole = plan(specs[:upper], lambda i: False)
    (walk,) = (step for step in whole if step.spec.name == "fly-to-llvm")
    assert walk.spec.options == {"passes": "+".join(spec.name for spec in specs[walk.first : walk.last + 1])}
    for place in range(walk.first, walk.last):
        steps = plan(specs[:upper], lambda i, place=place: i == place)
        assert place in {step.last for step in steps}
        assert [at for step in steps for at in range(step.first, step.last + 1)] == list(range(upper))


def test_no_pass_is_made_up_for():
    assert made_up_for([]) and not made_up_for([PassSpec(LINES)])
