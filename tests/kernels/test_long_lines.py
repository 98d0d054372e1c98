"""Arrays that reach over more elements than an extent of 32 bits has room for, as kernels with strides take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flydsl.kernels import attention, matmul, mla_decode
from flydsl.kernels.matmul import arrays


@pytest.mark.parametrize("step", [2**31, 2**31 - 2**16, 2**33, 3 * 2**31 + 7])
def test_lines_overlap_and_end_where_the_array_does(step: int):
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.int16), (2, 3), (2 * step, 2))
    made: Any = arrays.in_line(x)
    (count, length), (apart, one) = made.shape, (s // 2 for s in made.strides)
    assert one == 1 and length < 2**31 and apart <= length
    assert (count - 1) * apart + length == step + 3
    assert arrays.in_line(x[:1]).shape == (3,)


@pytest.mark.parametrize("arch", ["native", "sm_80", "gfx942"])
def test_kernels_take_them(arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        q, k = torch.randn(2, 3, 2, 32).half(), torch.randn(2, 9, 2, 32).half()
        return [
            attention(q, k, k),
            mla_decode(q, k[:, :, 0], dv=32),
            matmul(q[0, :, 0, ::2], k[0, :, 0, ::2].mT),
        ]

    want = run()
    monkeypatch.setattr(arrays, "LONGEST", 50)
    for found, known in zip(run(), want, strict=True):
        torch.testing.assert_close(found, known, rtol=0, atol=0)
