"""Synchronisation scopes: the portable names, and those that each vendor's LLVM backend knows.

LLVM ends the process over a scope it does not know, so each is looked up here first.
"""

from __future__ import annotations

from collections.abc import Callable

from flydsl.errors import DSLValueError

AMD = frozenset(
    {"", "singlethread", "agent", "cluster", "workgroup", "wavefront"}
    | {f"{scope}one-as" for scope in ("", "singlethread-", "agent-", "cluster-", "workgroup-", "wavefront-")}
)
NVIDIA = frozenset({"", "singlethread", "block", "cluster", "device"})
KNOWN = AMD | NVIDIA | {"warp"}

PORTABLE: dict[str, dict[str, str]] = {
    "device": {"amd": "agent", "nvidia": "device"},
    "block": {"amd": "workgroup", "nvidia": "block"},
    # NVIDIA has no scope of a warp: the next wider one holds all that is asked for.
    "warp": {"amd": "wavefront", "nvidia": "block"},
}
"""What `fx.SyncScope` calls the scopes that every vendor has, and what the vendors call them."""


def scope_for(scope: str, has: Callable[[str], bool]) -> str:
    """A scope as the target spells it, whose features `has` tells; the cpu stack alone may know those of both vendors.

    >>> scope_for("device", lambda feature: feature == "amd"), scope_for("warp", lambda feature: feature == "nvidia")
    ('agent', 'block')
    >>> scope_for("workgroup", lambda feature: feature == "nvidia")
    Traceback (most recent call last):
    ...
    flydsl.errors.DSLValueError: unknown syncscope 'workgroup': an NVIDIA GPU has block, cluster, device...
    """
    amd, nvidia = has("amd"), has("nvidia")
    if amd == nvidia:  # emulated, or not said
        if scope in KNOWN:
            return scope
        raise _unknown(scope, "any target", KNOWN)
    vendor, known, name = ("amd", AMD, "an AMD GPU") if amd else ("nvidia", NVIDIA, "an NVIDIA GPU")
    found = PORTABLE.get(scope, {}).get(vendor, scope)
    if found.startswith("cluster") and not has("clusters"):
        found = found.replace("cluster", PORTABLE["block"][vendor])  # a block is a cluster of its own
    if nvidia and found == "singlethread":
        found = "block"  # LLVM's backend does not take it; the wider scope holds all that is asked for
    if found not in known:
        raise _unknown(scope, name, known)
    return found


def _unknown(scope: str, where: str, known: frozenset[str]) -> DSLValueError:
    names = ", ".join(sorted(known - {""}))
    return DSLValueError(
        f"unknown syncscope {scope!r}: {where} has {names}, and '' for the system; "
        "fx.SyncScope.System, Device, Block and Warp are for all"
    )
