"""Dominators of the blocks of a region, for passes and checks that work on control-flow graphs."""

from __future__ import annotations

from xdsl.ir import Block, Region


def successors_of(block: Block) -> tuple[Block, ...]:
    """Blocks the terminator may go to."""
    last = block.last_op
    return tuple(last.successors) if last is not None else ()


def reverse_postorder(region: Region) -> list[Block]:
    """The blocks that can be reached from the entry, each before those it leads to except along back edges."""
    entry = region.blocks.first
    if entry is None:
        return []
    seen = {entry}
    order: list[Block] = []
    stack = [(entry, iter(successors_of(entry)))]
    while stack:
        block, rest = stack[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(successors_of(following))))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


class DominatorTree:
    """Immediate dominators by the iterative method of Cooper, Harvey and Kennedy."""

    def __init__(self, region: Region):
        self.order = reverse_postorder(region)
        """Reachable blocks; the entry is first."""
        self.children: dict[Block, list[Block]] = {block: [] for block in self.order}
        """Blocks immediately dominated by a block."""
        if len(self.order) > 1:
            for block, parent in self._parents().items():
                self.children[parent].append(block)

    def _parents(self) -> dict[Block, Block]:
        number = {block: i for i, block in enumerate(self.order)}
        before: list[list[int]] = [[] for _ in self.order]
        for block in self.order:
            for following in successors_of(block):
                before[number[following]].append(number[block])
        parent = [-1] * len(self.order)
        parent[0] = 0
        changed = True
        while changed:
            changed = False
            for i in range(1, len(self.order)):
                found = -1
                for p in before[i]:
                    if parent[p] >= 0:
                        found = p if found < 0 else _meet(parent, found, p)
                if parent[i] != found:
                    parent[i], changed = found, True
        return {self.order[i]: self.order[parent[i]] for i in range(1, len(self.order))}


def _meet(parent: list[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = parent[a]
        while b > a:
            b = parent[b]
    return a
