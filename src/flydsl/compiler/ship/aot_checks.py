"""Whether exported code fits this process: target, host, runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import ArtifactMismatchError
from ...target import GPUTarget, on_host
from ...target.compatibility import rank, runs_on
from ..build.header_checks import ArtifactFormatError
from ..call.arguments import Argument, StreamArgument
from .records import Record


def choose(groups: Sequence[Record], target: GPUTarget, sections: Sequence[frozenset[str]]) -> int:
    """The group of an exported file to use for a target: its own, else one whose code runs there as well.

    Code for AMD GPUs fits where the settings it names are those of the device; PTX runs on its architecture and later
    ones (`target.compatibility`). For the cpu stack targets must be equal.
    """
    for i, group in enumerate(groups):
        if group["target"] == target.key():
            return i
    same = [i for i, group in enumerate(groups) if group["backend"] == target.backend]
    if not same:
        raise ArtifactMismatchError("backend", target.backend, ", ".join(sorted({g["backend"] for g in groups})))
    made_for = {i: GPUTarget.parse(groups[i]["target"]) for i in same}
    fitting = [i for i in same if runs_on(made_for[i], target, assembled="cubin" in sections[i])]
    if fitting:
        return max(fitting, key=lambda i: rank(made_for[i]))
    of_arch = [groups[i]["target"] for i in same if groups[i]["target"].split(":")[1] == target.arch]
    if of_arch:
        other = of_arch[0].split(":")
        if other[2] != f"w{target.warp_size}":
            raise ArtifactMismatchError("warp_size", target.warp_size, int(other[2][1:]))
        raise ArtifactMismatchError("features", ",".join(target.features), ",".join(other[3:]))
    raise ArtifactMismatchError("target", target.key(), ", ".join(group["target"] for group in groups))


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
