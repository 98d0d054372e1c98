"""The examples on a real NVIDIA GPU, with torch tensors: random shapes, streams, threads, graphs, forks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc

pytestmark = pytest.mark.cuda
CASES = 20
NAMES = ["vector_add", "predicated_add", "tiled_copy", "tiled_mma"]


@pytest.fixture(autouse=True)
def cuda_stack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")


def _sizes(name: str, rng: np.random.Generator) -> tuple[int, ...]:
    match name:
        case "vector_add":
            return (int(rng.integers(1, 5000)) | 1,)
        case "predicated_add":
            return int(rng.integers(1, 150)) | 1, int(rng.integers(1, 300)) | 1
        case "tiled_copy":
            return 32 * (int(rng.integers(0, 4)) * 2 + 1), 64 * (int(rng.integers(0, 3)) * 2 + 1)
        case _:
            return 32 * int(rng.integers(1, 4)), 32 * int(rng.integers(1, 4)), 8 * int(rng.integers(1, 9))


def on_gpu(args, out):
    """The same arguments with device copies of the arrays, and the copy of `out`."""
    copies = {}

    def move(array):
        return copies.setdefault(id(array), torch.from_numpy(array).cuda())

    moved = []
    for arg in args:
        if hasattr(arg, "info"):
            made = flyc.from_torch_tensor(move(arg.info.owner))
            made.shape, made.strides = arg.shape, arg.strides
            made.shape_div, made.stride_div = arg.shape_div, arg.stride_div
            moved.append(made)
        else:
            moved.append(move(arg) if isinstance(arg, np.ndarray) else arg)
    return moved, copies[id(out)]


@pytest.mark.parametrize("name", NAMES)
def test_example(name: str, example, rng: np.random.Generator):
    module = example(name)
    for _ in range(CASES):
        sizes = _sizes(name, rng)
        args, out, expected = module.make_args(*sizes, rng)
        moved, result = on_gpu(args, out)
        getattr(module, name)(*moved)
        np.testing.assert_allclose(result.cpu(), expected, rtol=1e-4, atol=1e-4, err_msg=f"sizes {sizes}")


def test_current_and_explicit_streams(example, rng: np.random.Generator):
    """torch's current stream is taken; an explicit one wins."""
    module = example("vector_add")
    args, out, expected = module.make_args(100_003, rng)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (a, b, c, n), _ = on_gpu(args, out)
        torch.cuda._sleep(20_000_000)
        a.add_(1.0)
        module.vector_add(a, b, c, n)
    side.synchronize()
    np.testing.assert_allclose(c.cpu(), expected + 1, rtol=1e-5, atol=1e-5)
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(20_000_000)
        a.add_(1.0)
    module.vector_add(a, b, c, n, other)
    other.synchronize()
    np.testing.assert_allclose(c.cpu(), expected + 2, rtol=1e-5, atol=1e-5)


def test_launch_from_a_fresh_thread(example, rng: np.random.Generator):
    """A thread without a context launches the function another thread loaded."""
    module = example("vector_add")
    args, out, expected = module.make_args(4097, rng)
    moved, result = on_gpu(args, out)
    module.vector_add(*moved)
    result.fill_(float("nan"))
    torch.cuda.synchronize()
    errors: list[BaseException] = []

    def work():
        try:
            for _ in range(10):
                module.vector_add(*moved)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
    torch.cuda.synchronize()
    np.testing.assert_allclose(result.cpu(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("adapted", [False, True])
def test_torch_graph_capture(adapted: bool, example, rng: np.random.Generator):
    """Launches join the capture, with plain tensors and with adapters around them."""
    module = example("vector_add")
    args, out, expected = module.make_args(4097, rng)
    moved, result = on_gpu(args, out)
    if adapted:
        moved = [flyc.from_torch_tensor(x) if isinstance(x, torch.Tensor) else x for x in moved]
    module.vector_add(*moved)
    module.vector_add(*moved)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.vector_add(*moved)
    result.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_allclose(result.cpu(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_is_refused_in_the_child(example, rng: np.random.Generator):
    """The driver does not survive a fork: the child gets an error, not a hang."""
    module = example("vector_add")
    args, out, _ = module.make_args(33, rng)
    moved, _ = on_gpu(args, out)
    module.vector_add(*moved)
    torch.cuda.synchronize()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            module.vector_add(*moved)
        except Exception as error:  # noqa: BLE001 - its text is what is tested
            code = 0 if "fork" in str(error).lower() else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_host_tensors_are_refused(example, rng: np.random.Generator):
    module = example("vector_add")
    args, _, _ = module.make_args(33, rng)
    with pytest.raises(TypeError, match="host memory.*'cuda'"):
        module.vector_add(*args)


def test_cubin_through_ptxas(example, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """With FLYDSL_COMPILE_PTXAS the cubin is loaded, and its resources are known."""
    from flydsl.llvm import tools

    if tools.try_find_tool("ptxas") is None:
        pytest.skip("no ptxas here")
    monkeypatch.setenv("FLYDSL_COMPILE_PTXAS", str(tools.find_tool("ptxas").path))
    module = example("predicated_add")
    args, out, expected = module.make_args(37, 131, rng)
    moved, result = on_gpu(args, out)
    module.predicated_add(*moved)
    np.testing.assert_allclose(result.cpu(), expected, rtol=1e-6, atol=1e-6)
