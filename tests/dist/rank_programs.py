"""What ranks do in the tests of collectives, on any stack. Every rank makes the inputs of all from one seed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from flydsl.dist import SymmetricTensor, World
from flydsl.kernels.dist import Communicator, Experts
from flydsl.kernels.dist.communicator import part_of
from flydsl.testing import assert_close

TYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
}


class Local:
    """Arrays of a rank: numpy's on the cpu stack, torch's on a GPU."""

    def __init__(self, stack: str):
        self.on_host = stack == "cpu"

    def of(self, array: Any) -> Any:
        if self.on_host:
            return np.array(array)
        import torch

        name = array.dtype.name
        words = torch.from_numpy(np.ascontiguousarray(array).view(np.int16 if name == "bfloat16" else array.dtype))
        return (words.view(torch.bfloat16) if name == "bfloat16" else words).cuda()

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.of(np.full(shape, -7 if dtype == "int32" else np.nan, TYPES[dtype]))

    def back(self, array: Any) -> Any:
        if self.on_host:
            return array
        import torch

        torch.cuda.synchronize()
        if array.dtype == torch.bfloat16:
            return array.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return array.cpu().numpy()


def _close(got: Any, wanted: Any, magnitude: Any, terms: int, what: str) -> None:
    assert_close(got, wanted, terms=terms, magnitude=magnitude, what=what)


def collectives(world: World, stack: str, dtype: str, sizes: tuple[int, ...], seed: int, rounds: int = 2) -> bytes:
    """Every collective on every size, again and again; the sums, which must be the same in all ranks."""
    comm, local = Communicator(world, blocks=3), Local(stack)
    rng = np.random.default_rng(seed)
    found = b""
    for n in sizes:
        x = world.symmetric(n, dtype)
        for _ in range(rounds):
            whole = rng.standard_normal((world.size, n)).astype(TYPES[dtype])
            sums, magnitude = whole.astype("f8").sum(0), np.abs(whole.astype("f8")).sum(0)
            x.copy_from(whole[world.rank])
            for algorithm in ("one_shot", "two_shot"):
                out = local.poisoned((n,), dtype)
                comm.all_reduce(x, out, algorithm=algorithm)
                got = local.back(out)
                _close(got, sums, magnitude, world.size, f"{algorithm} all_reduce of {n}")
                found += got.tobytes()
            mine = part_of(n, world.size, world.rank)
            out = local.poisoned((len(mine),), dtype)
            comm.reduce_scatter(x, out)
            piece = slice(mine.start, mine.stop)
            _close(local.back(out), sums[piece], magnitude[piece], world.size, f"reduce_scatter of {n}")
            out = local.poisoned((world.size, n), dtype)
            comm.all_gather(x, out)
            assert local.back(out).tobytes() == whole.tobytes(), f"all_gather of {n}"
    return found


def products(world: World, stack: str, dtype: str, shapes: tuple[tuple[int, int, int], ...], seed: int) -> bool:
    """Both fused products, twice for every shape."""
    comm, local = Communicator(world, blocks=1), Local(stack)
    rng = np.random.default_rng(seed)
    for m, n, k in shapes:
        a = world.symmetric((m, k), dtype)
        for _ in range(2):
            every_a = rng.standard_normal((world.size, m, k)).astype(TYPES[dtype])
            every_b = rng.standard_normal((world.size, n, k)).astype(TYPES[dtype])
            mine = every_b[world.rank]
            a.copy_from(every_a[world.rank])
            c = local.poisoned((world.size, m, n), dtype)
            comm.all_gather_matmul(a, local.of(mine), c)
            wide_a, wide_b = every_a.astype("f8"), every_b.astype("f8")
            _close(
                local.back(c),
                wide_a @ wide_b[world.rank].T,
                np.abs(wide_a) @ np.abs(wide_b[world.rank].T),
                k,
                f"all_gather_matmul {m}x{n}x{k}",
            )
            rows = part_of(m, world.size, world.rank)
            out = local.poisoned((len(rows), n), dtype)
            comm.matmul_reduce_scatter(local.of(every_a[world.rank]), local.of(mine), out)
            whole = np.einsum("wmk,wnk->mn", wide_a, wide_b)[rows.start : rows.stop]
            most = np.einsum("wmk,wnk->mn", np.abs(wide_a), np.abs(wide_b))[rows.start : rows.stop]
            _close(local.back(out), whole, most, k * world.size, f"matmul_reduce_scatter {m}x{n}x{k}")
    return True


def _write(tensor: SymmetricTensor, array: Any) -> None:
    tensor.copy_from(array)


def experts(world: World, stack: str, dtype: str, tokens: int, columns: int, k: int, room: int, seed: int) -> int:
    """Dispatch, experts that multiply by their number + 1, combine; how many rows found no room."""
    local, per_rank = Local(stack), 3
    there = Experts(Communicator(world, blocks=4), per_rank=per_rank, room=room, columns=columns, dtype=dtype)
    rng = np.random.default_rng(seed)
    ranks, me, lost = world.size, world.rank, 0
    for _ in range(2):
        rows = rng.standard_normal((ranks, tokens, columns)).astype(TYPES[dtype])
        chosen = rng.integers(-1, ranks * per_rank + 1, (ranks, tokens, k)).astype(np.int32)
        weights = rng.random((ranks, tokens, k)).astype(np.float32)
        chosen_here, slots = local.of(chosen[me]), local.poisoned((tokens, k), "int32")
        there.dispatch(local.of(rows[me]), chosen_here, slots)
        received, owners, counts = (t.numpy() for t in (there.received, there.owners, there.counts))
        for source in range(ranks):
            to = np.where((chosen[source] < 0) | (chosen[source] >= ranks * per_rank), -1, chosen[source] // per_rank)
            mine = np.argwhere(to == me)
            lost += max(len(mine) - room, 0)
            assert counts[source] == min(len(mine), room)
            for place, (token, j) in enumerate(mine[:room]):
                assert received[source, place].tobytes() == rows[source, token].tobytes()
                assert owners[source, place] == chosen[source, token, j]
        made = received.astype("f4") * (owners[..., None] + 1)
        _write(there.results, np.nan_to_num(made).astype(TYPES[dtype]))
        out = local.poisoned((tokens, columns), dtype)
        there.combine(chosen_here, slots, local.of(weights[me]), out)
        kept = local.back(slots) >= 0
        products_of = (rows[me].astype("f4")[:, None] * (chosen[me][..., None] + 1)).astype(TYPES[dtype]).astype("f8")
        terms = np.where(kept[..., None], weights[me][..., None] * products_of, 0)
        _close(local.back(out), terms.sum(1), np.abs(terms).sum(1), k, "combine")
        world.barrier()  # results are written by the host
    return lost
