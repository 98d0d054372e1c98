"""llvmlite is loaded late, and its errors name the line."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from flydsl.errors import DSLCompileError
from flydsl.llvm import binding, tools


def test_import_loads_nothing_heavy():
    code = (
        "import sys, flydsl.llvm.binding, flydsl.llvm.codegen, flydsl.llvm.host_jit, flydsl.llvm.objects.link\n"
        "import flydsl.llvm.objects.code_object, flydsl.llvm.objects.amdgpu_link, flydsl.llvm.objects.ptx\n"
        "import flydsl.llvm.tools\n"
        "assert 'llvmlite' not in sys.modules\n"
    )
    env = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_versions():
    assert binding.llvm_version()[0] == tools.LLVM_MAJOR
    assert binding.llvmlite_version().startswith("0.")


def test_parse_error_quotes_the_line():
    text = "define i32 @f(i32 %x) {\n  %y = ad i32 %x, 1\n  ret i32 %y\n}\n"
    with pytest.raises(DSLCompileError) as caught:
        binding.parse(text)
    message = str(caught.value)
    assert "line 2, column 8" in message and ">     2 |   %y = ad i32 %x, 1" in message
    assert message.splitlines()[3].endswith("|        ^")


def test_verify_error_quotes_the_line():
    text = """define i32 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %y = add i32 1, 2
  br label %b
b:
  ret i32 %y
}
"""
    with pytest.raises(DSLCompileError) as caught:
        binding.parse(text)
    assert "does not verify" in str(caught.value) and ">     4 |   %y = add i32 1, 2" in str(caught.value)


def test_bad_bitcode():
    with pytest.raises(DSLCompileError, match="bitcode"):
        binding.parse_bitcode(b"nonsense")


def test_parsing_twice_gives_the_same_names():
    """Struct names live in the context; a shared one would rename the second module's."""
    text = "%pair = type { i32, i32 }\ndefine %pair @f(%pair %x) {\n  ret %pair %x\n}\n"
    first = binding.parse(text)
    assert str(first) == str(binding.parse(text))


def test_collecting_modules_in_cycles():
    """The garbage collector finalises a cycle's members in any order; module and context must survive that."""
    for _ in range(50):
        module = binding.parse("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
        cycle: list[object] = [module]
        cycle.append(cycle)
        del module, cycle
    gc.collect()


def test_closing_twice_is_harmless():
    module = binding.parse("define void @f() {\n  ret void\n}\n")
    module.close()
    module.close()


def test_bitcode_round_trip():
    module = binding.parse("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    again = binding.parse_bitcode(module.as_bitcode())
    assert "define i32 @f(i32 %x)" in str(again)


@pytest.mark.parametrize(
    ("triple", "cpu", "part"),
    [("amdgcn-amd-amdhsa", "gfx942", "p3:32:32"), ("nvptx64-nvidia-cuda", "sm_90a", "i128:128")],
)
def test_data_layout(triple: str, cpu: str, part: str):
    assert part in binding.data_layout(triple, cpu)


def test_machines_are_kept_and_unknown_targets_raise():
    a = binding.target_machine("amdgcn-amd-amdhsa", "gfx942")
    assert a is binding.target_machine("amdgcn-amd-amdhsa", "gfx942")
    assert a is not binding.target_machine("amdgcn-amd-amdhsa", "gfx942", opt_level=3)
    with pytest.raises(DSLCompileError, match="z80-none-none"):
        binding.target_machine("z80-none-none")


def test_host():
    assert binding.host_triple() and binding.host_cpu()
    assert all(part[0] in "+-" for part in binding.host_features().split(",") if part)


def test_threads():
    results: list[str] = []

    def work(n: int):
        for _ in range(10):
            results.append(str(binding.parse(f"define i32 @f{n}() {{\n  ret i32 {n}\n}}\n")))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40 and len(set(results)) == 4
