"""lit configuration: `%fly-opt` runs under the interpreter lit itself runs under.

So does `FileCheck` where LLVM's is not installed, which starts at once.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parents[2]

config.name = "flydsl"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).resolve().parent)
config.test_exec_root = str(Path(tempfile.gettempdir()) / "flydsl-lit")
config.environment["PYTHONPATH"] = str(root / "src")
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"
file_check = shutil.which("FileCheck-22") or f"{sys.executable} -m filecheck"
config.substitutions += [
    # Values keep the names of the file, so that checks can use them.
    ("%fly-opt", f"{sys.executable} -m flydsl.tools.fly_opt --print-names"),
    (r"\bFileCheck\b", file_check),
]
