"""The passes one by one, with the optional ones between them, compute what the one-walk lowering computes."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from flydsl.compiler import driver
from flydsl.passes.pipeline import make_pass

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SIZES = {"vector_add": (1001,), "predicated_add": (37, 129), "tiled_copy": (96, 64), "tiled_mma": (64, 32, 24)}
EXTRA = {
    "plain": (),
    "cleaned": ("fly-int-swizzle-simplify", "canonicalize", "cse"),
    "cse-first": ("cse", "canonicalize", "canonicalize"),
}


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("name", SIZES)
def test_examples(name, extra, monkeypatch):
    def unfused(passes):
        found = []
        for p in passes:
            found.append(p)
            if p.name == "fly-layout-lowering":
                found += [make_pass(more) for more in EXTRA[extra]]
        ran.extend(p.name for p in found)
        return found

    ran: list[str] = []
    monkeypatch.setattr(driver, "fuse", unfused)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    spec = importlib.util.spec_from_file_location(f"unfused_{name}_{extra.replace('-', '_')}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    args, out, expected = module.make_args(*SIZES[name], np.random.default_rng(3))
    getattr(module, name)(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert "fly-layout-lowering" in ran and set(EXTRA[extra]) <= set(ran)
