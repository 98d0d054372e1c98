"""A small call of a library kernel: what it is given, what must come out, and the targets it is for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import flydsl.compiler as flyc
from flydsl.testing import assert_close

ROCM = tuple(
    f"rocm:{arch}"
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx1250")
)
CUDA = tuple(f"cuda:{arch}" for arch in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100a", "sm_120"))


def plain(t: torch.Tensor) -> Any:
    """As a user hands it over: extents and strides are known at run time."""
    return t


def static(t: torch.Tensor) -> Any:
    """Extents and 16-byte units are known when the kernel is compiled."""
    return flyc.from_torch_tensor(t, assumed_align=16)


def units(t: torch.Tensor) -> Any:
    """Extents are known at run time, as multiples of 8; rows are contiguous."""
    if t.dim() == 1:
        return flyc.from_dlpack(t).mark_layout_dynamic()
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(leading_dim=t.dim() - 1, divisibility=8)


@dataclass(frozen=True)
class Case:
    """Arrays are named as the parameters of the kernel and given by a letter for each dimension."""

    kernel: Any
    arrays: dict[str, str]
    """Parameter -> letters, such as `{"a": "mk", "b": "nk", "c": "mn"}`."""
    sizes: dict[str, int]
    """Letter -> extent; odd where the kernel takes that."""
    wanted: Callable[..., torch.Tensor]
    """The result from the input arrays in float64, by their names."""
    targets: tuple[str, ...]
    result: str
    """The array that the kernel writes."""
    dtype: torch.dtype = torch.float32
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    """Arrays of another type."""
    others: dict[str, Any] = field(default_factory=dict)
    """Arguments that are no arrays."""
    terms: str = ""
    """The letter that is summed over."""
    magnitude: Callable[..., torch.Tensor] | None = None
    """What the sums are limited by, from the absolute values of the inputs; see `flydsl.testing.error_bound`."""
    rtol: float = 0.0
    """For functions that the kernel approximates."""
    wrap: Callable[[torch.Tensor], Any] = plain
    wraps: dict[str, Callable[[torch.Tensor], Any]] = field(default_factory=dict)
    """Arrays that are handed over in another way."""
    again: bool = False
    """Another case shows the same of the kernel; this one differs in its types."""
    place: dict[str, Callable[[torch.Tensor], torch.Tensor]] = field(default_factory=dict)
    """Inputs that the kernel wants in another order in memory."""

    @property
    def name(self) -> str:
        sizes = "x".join(map(str, self.sizes.values()))
        more = [str(value) for value in self.others.values()]
        return "-".join([self.kernel.__name__, str(self.dtype).removeprefix("torch."), sizes, *more])

    @property
    def emulated(self) -> str:
        """The architecture that the cpu stack plays."""
        return self.targets[0].partition(":")[2]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.sizes[letter] for letter in self.arrays[name])

    def make(self, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        """Random inputs, and a poisoned result."""
        made = {
            name: torch.from_numpy(rng.standard_normal(self.shape(name))).to(self.dtypes.get(name, self.dtype))
            for name in self.arrays
        }
        made[self.result] = torch.full_like(made[self.result].float(), float("nan")).to(made[self.result].dtype)
        return made

    def arguments(
        self, arrays: dict[str, torch.Tensor], wrap: Callable[[torch.Tensor], Any] | None = None
    ) -> list[Any]:
        """What the kernel is called with, by position; `wrap` instead of the ways of this case."""
        handed: dict[str, Any] = dict(self.others)
        for name, t in arrays.items():
            handed[name] = (wrap or self.wraps.get(name, self.wrap))(t)
        parameters = inspect.signature(self.kernel).parameters.values()
        return [handed.get(p.name, p.default) for p in parameters if p.name != "stream"]

    def check(self, rng: np.random.Generator, device: str = "cpu") -> float:
        """Call the kernel and compare; gives the worst error as a share of what is allowed."""
        arrays = self.make(rng)
        moved = {name: self.place.get(name, lambda t: t)(t).to(device) for name, t in arrays.items()}
        self.kernel(*self.arguments(moved))
        inputs = {name: t.double() for name, t in arrays.items() if name != self.result}
        magnitude = self.magnitude and self.magnitude(**{name: t.abs() for name, t in inputs.items()})
        return assert_close(
            moved[self.result],
            self.wanted(**inputs),
            terms=self.sizes[self.terms] if self.terms else 0,
            magnitude=magnitude,
            rtol=self.rtol,
            what=self.name,
        )

    def compile(self, target: str) -> Any:
        """The kernel for the target; no array is read."""
        arrays = {name: torch.zeros(self.shape(name)).to(self.dtypes.get(name, self.dtype)) for name in self.arrays}
        return flyc.compile(self.kernel, *self.arguments(arrays), target=target).artifact
