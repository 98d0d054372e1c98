"""The worker process of code generation: where LLVM may end the process it runs in."""

from __future__ import annotations

from flydsl.llvm.worker_process import Frame, Header, serve


def answer(request: Header, blobs: list[bytes]) -> Frame:
    """Do what a request asks for."""
    from flydsl.llvm import binding, codegen, pass_pipeline

    target = codegen.DeviceTarget(**request["target"])
    level: int = request["level"]
    if request["do"] == "assembly" and request["bitcode"]:
        text = codegen.emit_assembly(binding.parse_bitcode(blobs[0]), target.machine(level))
        return {}, [text.encode()]
    source = blobs[0].decode()
    if request["do"] == "assembly":
        # Of what the object was made of, which may have taken more than one attempt.
        emit = codegen.names_far_registers(target)
        code = codegen.compile_device(source, target, level, optimized=request["optimized"], emit=emit)
        return {}, [code.asm.encode()]
    if request["do"] == "passes":
        module = codegen.load_module(source, target)
        pass_pipeline.run(module, target.machine(level), pass_pipeline.parse(request["pipeline"]))
        return {}, [str(module).encode()]
    if request["do"] == "optimize":
        module = codegen.load_module(source, target)
        codegen.optimize_for(module, target, level)
        return {}, [str(module).encode()]
    assert request["do"] == "compile", request["do"]
    optimized, emit = request["optimized"], request["emit"]
    code = codegen.compile_device(source, target, level, optimized=optimized, emit=emit, keep=True)
    made = b"" if not emit else code.asm.encode() if target.output == "assembly" else code.object
    return {"times": code.times}, [code.bitcode, made]


def main() -> None:
    """Entry point of the child."""
    serve(answer)
