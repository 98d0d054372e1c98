"""One look at a file, in a process of its own: it is run as a script in compile-only mode, and what it says is noted.

python -m flydsl.tools.lsp.analysis OUT.json FILE [TARGET]

A mistake in one call does not hide the next: the statements of the file run one by one. Functions that the file does
not call are compiled from the hint above them, or from their annotations where these say it all.
"""

from __future__ import annotations
import __future__

import ast
import json
import linecache
import os
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from flydsl.compiler.active_backend import resolve_backend
from flydsl.compiler.build.dumps import watching
from flydsl.compiler.call.specs import ScalarSpec, TensorSpec
from flydsl.compiler.jit_function import JitFunction
from flydsl.compiler.listeners import compile_listener
from flydsl.debug.program import as_program, environment
from flydsl.errors import FlyDSLError
from flydsl.expr.numeric import NumericMeta
from flydsl.llvm.text.source_lines import SourceLine, assembly_lines
from flydsl.llvm.text.source_lines import ir_lines as llvm_lines
from flydsl.tools.explore.ir_text import Lines, ir_lines
from flydsl.tools.lsp.found import Found, FoundCode, FoundMistake
from flydsl.tools.lsp.source import Function, Source, parse
from flydsl.tools.lsp.values import Watch
from flydsl.tools.mistakes import Mistake, came_from_tracing, mistakes_of
from flydsl.tools.script_runs import target_variables

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from flydsl.compiler.build.artifact import CompiledArtifact

ERROR, WARNING, INFORMATION = 1, 2, 3
"""As the protocol has them."""


class Analysis:
    """What is found in a file."""

    def __init__(self, file: str, target: str | None):
        self.file = file
        self.target = target
        self.mistakes: list[FoundMistake] = []
        self.made: list[FoundCode] = []
        self.compiled: set[str] = set()
        self.watch = Watch(file)
        self._stages: list[tuple[str, Lines]] = []

    def run(self) -> Found:
        """Everything, as plain data."""
        text = Path(self.file).read_text(encoding="utf-8")
        try:
            source = parse(text, self.file)
        except SyntaxError as error:
            self._tell(error, ERROR)
            return self._result(None)
        target = source.target or self.target
        seen = {"FLYDSL_COMPILE_ONLY": "1", "FLYDSL_COMPILE_ALWAYS": "1", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1"}
        try:
            variables = target_variables(target)
        except FlyDSLError as error:
            line = next((i for i, t in enumerate(text.split("\n"), 1) if "fly:" in t and str(target) in t), 1)
            self._add({"file": self.file, "line": line, "column": 0, "end": 0, "message": str(error)}, ERROR)
            return self._result(source)
        with (
            environment(**seen, **variables),
            as_program(Path(self.file), ()),
            watching(self._stage),
            compile_listener(self._done),
        ):
            module = types.ModuleType("__main__")
            module.__file__ = self.file
            root, module.__package__ = _package(self.file)
            sys.path.insert(0, root)
            before = sys.modules["__main__"]
            sys.modules["__main__"] = module
            try:
                if self._script(text, module.__dict__):
                    self._uncalled(source, module.__dict__, target)
            finally:
                sys.modules["__main__"] = before
        return self._result(source)

    def _result(self, source: Source | None) -> Found:
        return {
            "mistakes": self.mistakes,
            "values": self.watch.values(),
            "made": self.made,
            "functions": [{"name": f.name, "line": f.line} for f in (source.functions if source else ())],
        }

    # -- running ---------------------------------------------------------------------------------------

    def _script(self, text: str, namespace: dict[str, object]) -> bool:
        """Run the statements; whether it came to the end of them."""
        tree = ast.parse(text, self.file)
        flags = _futures(tree)
        for statement in _statements(tree):
            code = compile(ast.Module([statement], []), self.file, "exec", flags, dont_inherit=True)
            try:
                with self.watch.watching():
                    exec(code, namespace)
            except SystemExit:
                return True
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises is told at its line
                if came_from_tracing(error):
                    self._tell(error, ERROR)
                elif not self.compiled:
                    self._tell(error, WARNING)
                    return False
                else:
                    return True  # it works on results that were not computed
        return True

    def _uncalled(self, source: Source, namespace: Mapping[str, object], target: str | None) -> None:
        """Compile what the file defines and does not call."""
        failed = bool(self.mistakes)  # perhaps in the call of one of these
        for about in source.functions:
            function = namespace.get(about.name)
            if about.kind != "jit" or about.level or not isinstance(function, JitFunction):
                continue
            if (failed or about.name in self.compiled) and (about.hint is None or about.hint.arguments is None):
                continue
            if about.name in source.inlined and about.hint is None:
                continue
            given = self._arguments(about, function, namespace)
            if given is None:
                continue
            wanted = about.hint.target if about.hint is not None and about.hint.target else target
            try:
                with self.watch.watching():
                    call = function.bind_given(*given)
                    function.artifact(call, resolve_backend(wanted), {"debug_info": True})
            except Exception as error:  # noqa: BLE001 - as above
                self._tell(error, ERROR)

    def _arguments(
        self, about: Function, function: JitFunction[...], namespace: Mapping[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]] | None:
        """From the hint, or from annotations that say everything; None, with a word about it, where neither does."""
        if about.hint is not None and about.hint.arguments is not None:
            names = {"TensorSpec": TensorSpec, "ScalarSpec": ScalarSpec, **namespace}
            try:
                given: object = eval(about.hint.arguments, names)
            except Exception as error:  # noqa: BLE001 - the hint is the user's code
                what = f"the hint cannot be evaluated: {type(error).__name__}: {error}"
                self._note(about.hint.line, what, ERROR)
                return None
            if isinstance(given, dict):
                return (), cast("dict[str, object]", given)
            return (cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)), {}
        found: list[object] = []
        signature = function.signature
        for name, parameter in signature.parameters.items():
            plain = signature.inspected.parameters[name]
            if plain.default is not plain.empty:
                break
            annotation: object = parameter.annotation
            if not isinstance(annotation, NumericMeta):
                example = 'args=(TensorSpec((1024,), "float32"), 1024)'
                what = f"{about.name} is not called in this file, and nothing says what {name!r} is: it is not "
                what += f"compiled; write above it, say, `# fly: {example}`"
                self._note(about.line, what, INFORMATION)
                return None
            found.append(ScalarSpec(annotation))
        return tuple(found), {}

    # -- noting ----------------------------------------------------------------------------------------

    def _stage(self, name: str, module: ModuleOp) -> None:
        if name == "origin":
            self._stages = []
        # The first and the last are shown.
        self._stages = [*self._stages[:1], (name, ir_lines(module))]

    def _done(
        self, name: str, key: str, target: str, times: object, cache_hit: bool, artifact: CompiledArtifact
    ) -> None:
        self.compiled.add(name)
        optimised = artifact.optimized_ir
        texts: list[tuple[str, Lines]] = [
            ("traced IR", self._stages[0][1] if self._stages else []),
            ("lowered IR", self._stages[-1][1] if self._stages else []),
            ("LLVM IR", list(zip(optimised.split("\n"), llvm_lines(optimised), strict=True))),
            ("assembly", [(line.text, line.source) for line in assembly_lines(artifact.asm)]),
        ]
        self.made.append(
            {
                "function": name,
                "target": artifact.target.key(),
                "kernels": [str(kernel.get("name")) for kernel in artifact.kernels],
                "texts": [
                    {"name": title, "text": "\n".join(t for t, _ in lines), "map": [self._number(s) for _, s in lines]}
                    for title, lines in texts
                    if lines
                ],
            }
        )

    def _number(self, source: SourceLine | None) -> int:
        return source.line if source is not None and source.filename == self.file else 0

    def _note(self, line: int, message: str, severity: int) -> None:
        end = len(linecache.getline(self.file, line).rstrip("\n"))
        self._add({"file": self.file, "line": line, "column": 0, "end": end, "message": message}, severity)

    def _tell(self, error: BaseException, severity: int) -> None:
        for mistake in mistakes_of(error, self.file):
            if not _same(mistake["file"], self.file):
                # It is in another file: told where this one calls it.
                there = f"{mistake['message']} (at {mistake['file']}:{mistake['line']})"
                mistake = cast(Mistake, {**mistake, "message": there, **_here(error, self.file)})
            self._add(mistake, severity)

    def _add(self, mistake: Mistake, severity: int) -> None:
        self.mistakes.append(
            {
                "line": mistake["line"],
                "column": mistake["column"],
                "end": mistake["end"],
                "message": mistake["message"],
                "severity": severity,
            }
        )


def _same(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def _here(error: BaseException, file: str) -> dict[str, object]:
    """The innermost line of a file that an error came through; its first line where it did not."""
    line, place = 0, error.__traceback__
    while place is not None:
        if _same(place.tb_frame.f_code.co_filename, file):
            line = place.tb_lineno
        place = place.tb_next
    return {"file": file, "line": line, "column": 0, "end": len(linecache.getline(file, line).rstrip("\n"))}


def _package(file: str) -> tuple[str, str]:
    """The folder to import from and the package a file is in, for its relative imports."""
    folder, names = os.path.dirname(file), list[str]()
    while os.path.exists(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        names.insert(0, name)
    return folder, ".".join(names)


def _futures(tree: ast.Module) -> int:
    """What `from __future__` asks of the compiler: statements that are compiled one by one would not know."""
    flags = 0
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                feature: object = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Those of the file, with the body of `if __name__ == "__main__":` among them."""
    for statement in tree.body:
        guarded = isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)
        if guarded and isinstance(statement, ast.If):
            yield from statement.body
        else:
            yield statement


def main(argv: list[str]) -> int:
    """Write what is found."""
    out, file, *rest = argv
    found = Analysis(os.path.abspath(file), rest[0] if rest else None).run()
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
