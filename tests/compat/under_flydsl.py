"""Compile programs of the corpus with an installed FlyDSL and write down the instructions and the LLVM IR of each.

    ARCH=gfx942 ROCM_PATH=folder python under_flydsl.py results.jsonl [part of a program's name ...]

Run it with the Python of an environment that has FlyDSL and torch. FlyDSL links with `ROCM_PATH/llvm/bin/ld.lld`. One
line is written for each program, at once, so that nothing is lost if one of them ends the process. The files of its
passes stay in the folder that `KEEP_DUMPS` names.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def compiled(program: object, folder: str) -> dict[str, object]:
    """The mnemonics FlyDSL makes of a program, and its LLVM IR."""
    from programs.case import instructions

    import flydsl.compiler as flyc

    os.environ["FLYDSL_DUMP_DIR"] = folder
    call = program.data()  # pyright: ignore
    flyc.compile(program.launch, *call.args)  # pyright: ignore
    asm, llvm = (
        [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob(name))]
        for name in ("*final_isa.s", "*llvm_ir.ll")
    )
    if not asm:
        raise RuntimeError("FlyDSL wrote no assembly")
    return {"instructions": [name for text in asm for name in instructions(text)], "llvm": llvm}


def main(results: str, *parts: str) -> None:
    os.environ.update(COMPILE_ONLY="1", FLYDSL_DUMP_IR="1", FLYDSL_RUNTIME_ENABLE_CACHE="0")
    arch = os.environ.setdefault("FLYDSL_GPU_ARCH", os.environ["ARCH"])
    from programs import PROGRAMS

    with open(results, "w", encoding="utf-8") as out:
        for program in PROGRAMS.values():
            if program.flydsl or arch not in program.archs or not any(p in program.name for p in parts or [""]):
                continue
            line: dict[str, object] = {"name": program.name, "arch": arch}
            kept = os.environ.get("KEEP_DUMPS", "")
            with tempfile.TemporaryDirectory() as folder:
                try:
                    line |= compiled(program, str(Path(kept, program.name)) if kept else folder)
                except Exception:  # noqa: BLE001  (whatever it was, it is the result)
                    line["error"] = traceback.format_exc(limit=-3)[-3000:]
            out.write(json.dumps(line) + "\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
