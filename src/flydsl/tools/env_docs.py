"""The page docs/environment.md, made from the declarations in `flydsl.config`: `fly env --markdown`."""

from __future__ import annotations

from typing import Any

from flydsl import config
from flydsl.config import KeyRole, Var

_HEAD = """# Environment variables

<!-- Made by `fly env --markdown > docs/environment.md` from src/flydsl/config.py. Edit that file. -->

Every variable is declared in one place, `flydsl.config` (also `flydsl.utils.env`), and read when it is used, not at
import. A value that cannot be used raises `ConfigError`, a `ValueError`, with the variable, its text and what is
accepted. Booleans take `1`, `true`, `yes`, `on` and `0`, `false`, `no`, `off` in any case, and empty text for false.
A name that starts with `FLYDSL_` and is not listed here has no effect; `fly doctor` and a warning point it out.

`fly env` prints every value with its default and where it comes from; `fly doctor` prints what differs from the
defaults. In Python: `config.runtime.cache_dir`, `config.compile.to_dict()`, `print(config.debug.help())`.

*Key* says how a variable takes part in the cache key of compiled kernels: by its value, through the target it leads
to, by the content of the files it names, or not at all.
"""

_KEYS = {
    KeyRole.NONE: "",
    KeyRole.VALUE: "value",
    KeyRole.TARGET: "target",
    KeyRole.CONTENT: "content",
    KeyRole.DEBUG_INFO: "value, with debug info",
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(attribute: str, var: Var[Any]) -> str:
    names = ", ".join(f"`{name}`" for name in var.names)
    default = var.default_text if var.default_text in ("unset", "search") else f"`{var.default_text}`"
    cells = (names, f"`{attribute}`", _cell(f"{var.kind}: {var.accepts()}"), _cell(default), _KEYS[var.key], var.doc)
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, group in config.GROUPS.items():
        parts.append(f"## `config.{name}`\n\n{(type(group).__doc__ or '').strip()}\n")
        rows = [_row(attribute, var) for attribute, var in group.variables().items()]
        parts.append(
            "\n".join(["| variable | attribute | accepts | default | key | meaning |", "|---" * 6 + "|", *rows])
        )
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"
