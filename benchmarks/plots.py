"""Pictures and tables of the documentation from the raw lines in `benchmarks/results`, without any library.

    python benchmarks/plots.py            # docs/img/speed-*.svg, docs/history.md, the table of tutorial chapter 10
    python benchmarks/plots.py --check    # says what is not current, and fails

A file of results is named `h200-FAMILY-DATE.jsonl`. The newest of a family is drawn: a bar for each case, as long as
our speed over the best peer's in the same run. The history has a row for each file.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHAPTER = ROOT / "docs" / "tutorial" / "10-attention.md"
LEFT, WIDTH, BAR = 300, 860, 18


class Case(NamedTuple):
    """One measurement of ours beside the best of the others."""

    what: str
    ours: float
    best: float
    peer: str
    unit: str

    @property
    def ratio(self) -> float:
        return self.ours / self.best


class Family(NamedTuple):
    """What a kind of file is about, and who is who in it."""

    title: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]


FAMILIES = {
    "rows": Family("Rows: softmax, norms, vector add", ("flydsl",), ("triton", "torch")),
    "training": Family("Rows: plain tensors, forward and backward", ("flydsl",), ("compile", "torch")),
    "matmul-entry": Family("matmul, bf16, the entry point", ("matmul",), ("cublas",)),
    "matmul-precisions": Family("matmul, 8-bit types", ("flydsl",), ("library",)),
    "grouped": Family("grouped_matmul, bf16", ("flydsl",), ("torch",)),
    "attention": Family("attention forward, bf16", ("ours",), ("cudnn", "flash")),
    "attention-backward": Family("attention backward, bf16", ("ours",), ("cudnn",)),
    "attention-decode": Family("attention decoding, bf16", ("ours",), ("cudnn", "flash")),
}
STEPS = {
    "naive": "three kernels, all scores in memory",
    "tiled": "one kernel, online softmax, no scores in memory",
    "matrix": "products by tensor cores",
    "exp2": "scale and log2(e) folded into one factor of `exp2`",
    "registers": "weights never leave the registers; `cp.async`, `ldmatrix`",
    "pipelined": "the next keys and values come during this step",
    "specialized": "TMA, `wgmma`, a warpgroup that only fetches",
}


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def shape_of(row: dict) -> str:
    """A name for a case, from the forms the benchmarks write."""
    if "shape" in row:
        return row["shape"] + (" ragged" if row.get("ragged") else "")
    case = next((row[key] for key in ("case", "backward", "decode") if key in row), None)
    if case is None:
        return row["what"]
    if "m" in case:
        text = f"{case['m']} x {case['n']} x {case['k']}"
        majors = case.get("a_major", "k") + case.get("b_major", "k")
        text += "" if majors == "kk" else f" ({majors})"
        return f"{row['what']}, {text}" if "what" in row else text
    text = f"{case['b']}, {case['h']}, {case['hk']}, {case['s']}, {case['d']}"
    return text + (" causal" if case["causal"] else "")


def values_of(rows: Iterable[dict]) -> dict[tuple[str, str], dict[str, float]]:
    """By case and unit: who had which speed."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        who = row.get("who") or row.get("contender")
        for key, unit in (("tflops", "TFLOP/s"), ("tbs", "TB/s"), ("value", row.get("unit", ""))):
            if key not in row:
                continue
            values = row[key] if isinstance(row[key], dict) else {who: row[key]}
            found.setdefault((shape_of(row), unit), {}).update(values)
    return found


def cases_of(family: str, path: Path) -> list[Case]:
    """Ours and the best peer's, where a line has both."""
    who = FAMILIES[family]
    cases = []
    for (what, unit), speeds in values_of(lines_of(path)).items():
        if family == "rows" and unit != "TB/s":
            continue
        ours = [speeds[name] for name in who.ours if name in speeds]
        peers = [(speeds[name], name) for name in who.peers if name in speeds]
        if ours and peers:
            best, name = max(peers)
            cases.append(Case(what, max(ours), best, name, unit))
    return cases


def files_of(family: str) -> list[Path]:
    """Oldest first."""
    middle = "" if family == "rows" else f"-{family}"
    return sorted(path for path in RESULTS.glob(f"h200{middle}-*.jsonl") if re.fullmatch(
        rf"h200{middle}-\d{{4}}-\d{{2}}-\d{{2}}\w?\.jsonl", path.name
    ))  # fmt: skip


def date_of(path: Path) -> str:
    found = re.search(r"\d{4}-\d{2}-\d{2}\w?(?=\.jsonl$)", path.name)
    assert found is not None
    return found[0]


def mean(cases: list[Case]) -> float:
    return math.exp(sum(math.log(case.ratio) for case in cases) / len(cases))


def picture(title: str, cases: list[Case]) -> str:
    """A bar for each case; the line is where both are equal."""
    scale = (WIDTH - LEFT - 250) / max(1.0, *(case.ratio for case in cases))
    one, height = LEFT + scale, 52 + BAR * len(cases)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="16" y="22" font-size="14">{escape(title)}</text>',
    ]
    y = 40
    for case in cases:
        length, colour = case.ratio * scale, "#c0392b" if case.ratio >= 1 else "#d98880"
        text = f"{case.ratio:.2f}  ({case.ours:.4g} to {case.peer}'s {case.best:.4g} {case.unit})"
        out.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(case.what)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 5}" fill="{colour}"/>')
        out.append(f'<text x="{max(length, scale) + LEFT + 8:.1f}" y="{y + 11}">{escape(text)}</text>')
        y += BAR
    out.append(f'<line x1="{one:.1f}" y1="34" x2="{one:.1f}" y2="{y}" stroke="#2c3e50" stroke-dasharray="3 3"/>')
    return "\n".join([*out, "</svg>", ""])


def history() -> str:
    """A row for each file of results."""
    text = """# Performance history

Every published run on an NVIDIA H200, from the raw lines in `benchmarks/results`: our speed over the best peer's in the
same run (cuBLAS, cuDNN, torch, Triton), the geometric mean over the cases and the worst of them. How runs are made, and
what a percent means, is said under [measured speed](performance.md). A run's lines are in
`benchmarks/results/h200-FAMILY-DATE.jsonl` (of rows: `h200-DATE.jsonl`). Made by `python benchmarks/plots.py`.

| what | family | date | cases | mean | worst | at |
|---|---|---|---|---|---|---|
"""
    pages = []
    for family, about in FAMILIES.items():
        for path in files_of(family):
            cases = cases_of(family, path)
            worst = min(cases, key=lambda case: case.ratio)
            date = date_of(path).replace("-", "\u2011")  # a date stays on one line
            text += f"| {about.title} | {family} | {date} | {len(cases)} | {mean(cases):.2f} | {worst.ratio:.2f} "
            text += f"| {worst.what} |\n"
        pages.append(f"## {about.title}\n\n![{about.title}: ours over the best peer's](img/speed-{family}.svg)\n")
    return text + "\nThe newest run of each, case by case:\n\n" + "\n".join(pages)


def steps_table() -> str:
    """What each step of chapter 10 gained in the newest run; empty cells without one."""
    files = files_of("attention-steps")
    speeds = {row["who"]: row["tflops"] for row in lines_of(files[-1])} if files else {}
    rows = ["| step | what is new | TFLOP/s | against the step before |", "|---|---|---|---|"]
    before: float | None = None
    for number, (name, words) in enumerate(STEPS.items(), 1):
        speed = speeds.get(name)
        gain = f"{speed / before:.1f} x" if speed and before else ""
        cell = "" if speed is None else f"{speed:.3g}"
        rows.append(f"| {number} `{name}` | {words} | {cell} | {gain} |")
        before = speed
    for name, words in (("library", "`flydsl.kernels.attention`"), ("torch", "torch's `scaled_dot_product_attention`")):
        if name in speeds:
            rows.append(f"| | {words} | {speeds[name]:.3g} | |")
    return "\n".join(rows)


def made() -> dict[Path, str]:
    """Every file that is made here, and what it should say."""
    files = {ROOT / "docs" / "history.md": history()}
    for family, about in FAMILIES.items():
        newest = files_of(family)[-1]
        title = f"{about.title}: NVIDIA H200, {date_of(newest)}; ours over the best peer's"
        files[ROOT / "docs" / "img" / f"speed-{family}.svg"] = picture(title, cases_of(family, newest))
    table = f"<!-- steps: begin -->\n{steps_table()}\n<!-- steps: end -->"
    replaced = re.sub(r"<!-- steps: begin -->.*<!-- steps: end -->", lambda _: table, CHAPTER.read_text(), flags=re.S)
    files[CHAPTER] = replaced
    return files


def main() -> int:
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run python benchmarks/plots.py")
        return bool(stale)
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
