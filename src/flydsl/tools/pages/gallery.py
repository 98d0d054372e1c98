"""The gallery of layouts: a page and its pictures, drawn by the library.

python -m flydsl.tools.pages.gallery docs/gallery.md docs/img/gallery
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from ...layout import parse_any_layout, parse_layout
from ...layout.draw import draw_layout, draw_tv


class Picture(NamedTuple):
    """A layout as `fly draw` takes it; with a tile it is one of threads and values."""

    name: str
    title: str
    words: str
    layout: str
    tile: tuple[int, int] | None = None
    banks: int = 16

    def draw(self) -> str:
        """The SVG."""
        if self.tile is not None:
            return draw_tv(parse_layout(self.layout), self.tile)
        return draw_layout(parse_any_layout(self.layout), self.banks)

    @property
    def command(self) -> str:
        """What draws it again."""
        options = "" if self.tile is None else f" --tile {self.tile[0]}x{self.tile[1]}"
        options += "" if self.banks == 16 else f" --banks {self.banks}"
        return f"fly draw '{self.layout}'{options} -o {self.name}.svg"


SECTIONS: dict[str, list[Picture]] = {
    "Orders": [
        Picture("rows", "Rows", "C's order: a row lies in one piece.", "(4,8):(8,1)"),
        Picture("columns", "Columns", "Fortran's order, and what a shape without strides means.", "(4,8):(1,4)"),
        Picture("padded", "Padded rows", "One element more from row to row: columns fall into other banks.",
                "(8,8):(9,1)", banks=8),
        Picture("blocks", "Blocks", "2 x 4 blocks, each in one piece: both modes are nested.",
                "((2,2),(4,2)):((4,16),(1,8))"),
        Picture("morton", "Morton order", "Bits of row and column alternate; any square power of two is in one piece.",
                "((2,2,2),(2,2,2)):((1,4,16),(2,8,32))"),
        Picture("broadcast", "Broadcast", "Stride 0: every row is the same memory.", "(4,8):(0,1)"),
    ],
    "Swizzles": [
        Picture("plain-banks", "No swizzle", "Colours are banks: a column has one, and its reads wait for each other.",
                "(8,8):(8,1)", banks=8),
        Picture("swizzle-3-0-3", "Swizzle of single elements", "Every row and every column has all eight banks.",
                "S<3,0,3> o 0 o (8,8):(8,1)", banks=8),
        Picture("swizzle-2-1-2", "Swizzle of pairs", "Two neighbours stay together, so that wide accesses stay wide.",
                "S<2,1,2> o 0 o (8,8):(8,1)", banks=8),
    ],
    "Threads and values": [
        Picture("tv-rows", "A coalesced copy", "4 x 4 threads with four neighbours of a row each: wide accesses, "
                "and neighbouring threads side by side.", "((4,4),4):((16,1),4)", (4, 16)),
        Picture("tv-strided", "A strided copy", "The same threads with every fourth element: narrow accesses, still "
                "coalesced.", "((4,4),4):((4,1),16)", (4, 16)),
        Picture("tv-2x2", "Two by two", "A thread has a square: two rows, two neighbours in each.",
                "((4,2),(2,2)):((8,2),(4,1))", (4, 8)),
    ],
    "Matrix instructions": [
        Picture("mfma-a", "MFMA 16x16x16, A", "A lane has four neighbours along k of one row.",
                "((16,4),4):((1,64),16)", (16, 16)),
        Picture("mfma-c", "MFMA 16x16x16, C", "A lane has four rows of one column.",
                "((16,4),(4,1)):((16,4),(1,16))", (16, 16)),
        Picture("wmma-c", "WMMA 16x16x16 of RDNA4, C", "A lane has eight rows of one column.",
                "((16,2),8):((16,8),1)", (16, 16)),
        Picture("mma-a", "mma.sync m16n8k16, A", "Pairs of a row, in quads of lanes; four 8 x 8 matrices, as "
                "`ldmatrix` brings them.", "((4,8),(2,2,2)):((32,1),(16,8,128))", (16, 16)),
        Picture("mma-b", "mma.sync m16n8k16, B", "The same along k; a column of B^T for each quad.",
                "((4,8),(2,2)):((16,1),(8,64))", (8, 16)),
        Picture("mma-c", "mma.sync m16n8k16, C", "Pairs of a row again, in rows r and r + 8: two of them side by "
                "side are an operand A, which is how attention keeps its weights in registers.",
                "((4,8),(2,2)):((32,1),(16,8))", (16, 8)),
    ],
}  # fmt: skip
"""What is shown, in order."""

HEAD = """# A gallery of layouts

Drawn by `fly draw`, which takes any layout; in Python `layout.draw()` gives the same SVG. Without a tile a cell shows
its offset; offsets that are equal modulo the number of banks have one colour. Over a tile the layout is one of threads
and values: `T5.2` is value 2 of thread 5, and a thread has one colour. What the words mean is in
[chapter 2](tutorial/02-layouts.md) and [layouts](reference/layouts.md). Made by `python -m flydsl.tools.pages.gallery`.
"""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for section, pictures in SECTIONS.items():
        parts.append(f"## {section}\n")
        for picture in pictures:
            parts.append(f"### {picture.title}\n\n{picture.words}\n")
            parts.append(f"![{picture.title}: {picture.layout}](img/gallery/{picture.name}.svg)\n")
            parts.append(f"```bash\n{picture.command}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page and its pictures."""
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for pictures in SECTIONS.values():
        for picture in pictures:
            (folder / f"{picture.name}.svg").write_text(picture.draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
