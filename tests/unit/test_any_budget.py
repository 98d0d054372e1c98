"""The source says `Any` no more often than it is allowed to; the number in any_budget.txt is per thousand lines.

`python scripts/any_budget.py` lists where they are.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_any_is_rare():
    budget = load("any_budget")
    allowed = float(budget.BUDGET.read_text(encoding="utf-8"))
    found = budget.count(sorted(budget.SOURCE.rglob("*.py")))
    assert found.rate <= allowed, (
        f"{found.words} times Any in {found.lines} lines, {found.rate:.2f} per thousand; {allowed} are allowed. "
        "Use object, a union, a Protocol or a TypeVar; `python scripts/any_budget.py` lists the folders"
    )
    assert found.rate > allowed - 1, f"only {found.rate:.2f} per thousand are left: write that into any_budget.txt"


def test_counting(tmp_path: Path):
    file = tmp_path / "one.py"
    file.write_text("x: Any = 1\nAnyLayout, many = Many, dict[Any, Any]\n", encoding="utf-8")
    found = load("any_budget").count([file])
    assert (found.words, found.lines, found.rate) == (3, 2, 1500.0)


def test_other_names_for_it_count_where_they_are_known(tmp_path: Path):
    texts = {
        "one.py": "Given: TypeAlias = Any\ndef f(x: Given) -> Given: ...\n",
        "two.py": "from .one import Given\nx: Given\n",
        "three.py": 'Given: TypeAlias = "int | None"\nx: Given\n',
        "four.py": "from .three import Other\nGiven = 3\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    counted = {name: load("any_budget").count([tmp_path / "one.py", tmp_path / name]).words for name in texts}
    assert counted == {"one.py": 4, "two.py": 6, "three.py": 4, "four.py": 4}


def test_the_stubs_are_current():
    stubs = load("type_stubs")
    old = [file.name for file, text in stubs.stubs().items() if file.read_text(encoding="utf-8") != text]
    assert not old, f"{', '.join(old)}: run scripts/type_stubs.py"


def test_a_name_added_to_a_table_is_in_the_stub(monkeypatch):
    import flydsl.compiler

    monkeypatch.setitem(flydsl.compiler._WHERE, "later", ".jit_function")
    made = load("type_stubs").table_stub("flydsl.compiler", "...")
    assert " later as later" in made
