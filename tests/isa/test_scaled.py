"""Products with scales as machine code; the checks are those of the emulated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kernels import test_rocm_scaled as checks

from .test_executor import execute


class Stays(pytest.MonkeyPatch):
    """The GPU that is executed is not changed for the emulated one."""

    def setenv(self, name: str, value: str, prepend: str | None = None) -> None:
        pass


CASES: tuple[tuple[str, Callable[..., None], tuple[Any, ...]], ...] = (
    ("gfx950", checks.test_mfma_scale, ("Float8E4M3FN", "Float4E2M1FN", (16, 16, 128))),
    ("gfx950", checks.test_mfma_scale, ("Float6E2M3FN", "Float8E5M2", (32, 32, 64))),
    ("gfx1250", checks.test_wmma_scale, ("Float8E4M3FN", "Float4E2M1FN", 32)),
    ("gfx1250", checks.test_wmma_scale, ("Float6E3M2FN", "Float6E3M2FN", 16)),
    ("gfx1250", checks.test_wmma_scale_32_rows, ()),
)


@pytest.mark.parametrize(("arch", "check", "given"), CASES)
def test_random_products(arch: str, check: Callable[..., None], given: tuple[Any, ...], gpu: Any):
    gpu(arch)
    check(*given, Stays())


def test_a_scale_that_is_no_number():
    """The largest code is NaN, on the rows of its lane alone."""
    ones = dict.fromkeys(range(32), 0x38383838)  # 1.0 in every byte
    scales = np.full(32, 0x7F7F7F7F, np.uint32)
    scales[5] |= 0xFF << 16
    text = "v_wmma_scale_f32_16x16x128_f8f6f4 v[40:47], v[0:15], v[16:31], 0, v34, v35"
    w = execute(text, {**ones, 34: scales, 35: 0x7F7F7F7F}, "gfx1250")
    bad = np.isnan(w.vf[40:48])
    assert bad[5, :16].all() and bad.sum() == 16
    assert (w.vf[40:48][~bad] == 128).all()
