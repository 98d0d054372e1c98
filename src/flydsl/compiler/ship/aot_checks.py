"""Whether exported code fits this process: target, host, runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import ArtifactMismatchError
from ...target import GPUTarget, on_host
from ..build.header_checks import ArtifactFormatError
from ..call.arguments import Argument, StreamArgument
from .records import Record

_CUDA = re.compile(r"sm_(\d+)([af]?)")


def choose(groups: Sequence[Record], target: GPUTarget, sections: Sequence[frozenset[str]]) -> int:
    """The group of an exported file to use for a target: its own, else one whose code runs there as well.

    For AMD GPUs and the cpu stack targets must be equal. PTX runs on its architecture and later ones; with a suffix,
    or as a cubin, it is bound more tightly (`_cuda_fits`).
    """
    for i, group in enumerate(groups):
        if group["target"] == target.key():
            return i
    same = [i for i, group in enumerate(groups) if group["backend"] == target.backend]
    if not same:
        raise ArtifactMismatchError("backend", target.backend, ", ".join(sorted({g["backend"] for g in groups})))
    if target.has("nvidia") and not target.on_host:
        fitting = [i for i in same if _cuda_fits(groups[i]["target"], target.arch, "cubin" in sections[i])]
        if fitting:
            return max(fitting, key=lambda i: _number(groups[i]["target"]))
    of_arch = [groups[i]["target"] for i in same if groups[i]["target"].split(":")[1] == target.arch]
    if of_arch:
        other = of_arch[0].split(":")
        if other[2] != f"w{target.warp_size}":
            raise ArtifactMismatchError("warp_size", target.warp_size, int(other[2][1:]))
        raise ArtifactMismatchError("features", ",".join(target.features), ",".join(other[3:]))
    raise ArtifactMismatchError("target", target.key(), ", ".join(group["target"] for group in groups))


def _number(target: str) -> int:
    match = _CUDA.fullmatch(target.split(":")[1])
    return int(match[1]) if match else 0


def _cuda_fits(made_for: str, arch: str, cubin: bool) -> bool:
    """Whether code for one NVIDIA architecture runs on another.

    `sm_90a` runs on sm_90 alone and `sm_100f` within its family (the same tens); a cubin within its major version on
    the same or a later minor one; PTX without a suffix on everything later.
    """
    theirs, ours = _CUDA.fullmatch(made_for.split(":")[1]), _CUDA.fullmatch(arch)
    if theirs is None or ours is None or int(ours[1]) < int(theirs[1]):
        return False
    if theirs[2] == "a":
        return ours[1] == theirs[1]
    if theirs[2] == "f" or cubin:
        return int(ours[1]) // 10 == int(theirs[1]) // 10
    return True


_SLOT = re.compile(rb"getelementptr ptr, ptr %slots, i32 (\d{1,9})\b")


def check_slots(host: bytes, arguments: Sequence[Argument]) -> None:
    """The host function reads no argument beyond those that the parameters of the file lead to."""
    streams = sum(isinstance(argument, StreamArgument) for argument in arguments)
    given = sum(len(a.__c_abi_spec__()) for a in arguments if not isinstance(a, StreamArgument)) + max(streams, 1)
    needed = max((int(slot) for slot in _SLOT.findall(host)), default=1) - 1
    if needed > given:
        raise ArtifactFormatError(
            "parameters", f"the host function takes {needed} values, the parameters give {given}", expected=needed
        )


def check_host(group: Record) -> None:
    """The host function, and on the cpu stack the kernels, were compiled for a machine like this one."""
    from ...llvm import binding

    host: Record = group.get("host", {})
    if host.get("triple") != binding.host_triple():
        raise ArtifactMismatchError("host triple", binding.host_triple(), host.get("triple"))
    if on_host(group["backend"]) and host.get("cpu") != binding.host_cpu():
        raise ArtifactMismatchError("host cpu", binding.host_cpu(), host.get("cpu"))
