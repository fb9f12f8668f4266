"""Trees of drafts, and the test of siblings: several drafts for one place, tried one after another.

A tree hangs below a root, node 0, whose token is final. The drafts below a node are tried in order. The first
is judged by the node's law p, as a single draft would be; each further one by what its rejected elders have
left of p. If none stays, the token is drawn from what is left then. The result follows p exactly, if

- children drawn at random were drawn by `draw_distinct`: each from q without its elders, and that is the law
  it is judged with (to judge all of them with q itself is wrong);
- children chosen without chance (the most likely codes) count as drawn from a law of one code. With the
  strict rule a rejection then takes the code out of p and normalises.

The walk from the root follows the children that stay. Which subtree it enters depends on the tokens and
numbers above it alone, so subtrees may share drafts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoding.kernel import sample
from decoding.rules.rule import Drafts, Rule

NO_CHILD = 0
"""In place of a child's index: the root is nobody's child."""


@dataclass(frozen=True)
class Tree:
    """The shape of T nodes; node 0 is the root."""

    parents: tuple[int, ...]
    """Each node's parent, which comes before it; -1 for the root. Siblings are tried in this order."""

    @property
    def size(self) -> int:
        """T."""
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Steps from the root: node i stands `depths[i]` places after it."""
        depths = [0] * self.size
        for node, parent in enumerate(self.parents[1:], 1):
            depths[node] = depths[parent] + 1
        return tuple(depths)

    @cached_property
    def generations(self) -> tuple[tuple[Int[Tensor, " C"], Int[Tensor, " C"]], ...]:
        """First children of all nodes with their parents, then the second children, and so on; on the CPU."""
        ranks: dict[int, int] = {}
        groups: list[tuple[list[int], list[int]]] = []
        for node, parent in enumerate(self.parents[1:], 1):
            rank = ranks[parent] = ranks.get(parent, -1) + 1
            if rank == len(groups):
                groups.append(([], []))
            groups[rank][0].append(node)
            groups[rank][1].append(parent)
        return tuple((torch.tensor(nodes), torch.tensor(parents)) for nodes, parents in groups)

    @cached_property
    def lineage(self) -> Bool[Tensor, "T T"]:
        """Each node's ancestors and itself; on the CPU."""
        lineage = np.eye(self.size, dtype=bool)
        for node, parent in enumerate(self.parents[1:], 1):
            lineage[node] |= lineage[parent]
        return torch.from_numpy(lineage)

    def sees(self, cached: int) -> Bool[Tensor, "T E"]:
        """What each node attends to behind `cached` entries: these and its lineage; on the CPU."""
        return torch.cat([self.lineage.new_ones(self.size, cached), self.lineage], 1)

    def path(self, chosen: Sequence[int]) -> list[int]:
        """The nodes from the root along the chosen children."""
        path = [0]
        while chosen[path[-1]] != NO_CHILD:
            path.append(chosen[path[-1]])
        return path


def without(q: Float[Tensor, "*B V"], tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B V"]:
    """The law q with a code taken out, normalised; uniform over all codes where nothing is left."""
    rest = q.scatter(-1, tokens[..., None], 0)
    mass = rest.sum(-1, keepdim=True)
    return torch.where(mass > 0, rest / mass, 1 / q.shape[-1])


def draw_distinct(q: Float[Tensor, "*B V"], u: Float[Tensor, "*B K"]) -> Int[Tensor, "*B K"]:
    """K drafts of each law, drawn one after another without replacement as long as it has codes left."""
    drawn = []
    for number in u.unbind(-1):
        q = without(q, drawn[-1]) if drawn else q
        drawn.append(sample(q, number))
    return torch.stack(drawn, -1)


def judge(
    tree: Tree,
    tokens: Int[Tensor, "N T"],
    p: Float[Tensor, "N T V"],
    u: Float[Tensor, "N T"],
    *,
    rule: Rule,
    q: Float[Tensor, "N T V"] | None = None,
) -> tuple[Int[Tensor, "N T"], Float[Tensor, "N T V"]]:
    """Tests the children of every node at once; no host synchronisation.

    Args:
        tree: its shape.
        tokens: its nodes; the root's is final.
        p: target law of the place after each node.
        u: one number a node in [0, 1), which decides on that node; the root's decides nothing.
        rule: the test of a single draft and what it leaves when it rejects.
        q: law that the children of each node were drawn from by `draw_distinct`; none if they were chosen
            without chance. Rows of nodes without children are not read.

    Returns:
        The child that stays, `NO_CHILD` where none does; and the law of the token in place of all children
        where none stays, which is p for a node without any.
    """
    device = tokens.device
    depths = torch.tensor(tree.depths, device=device)
    left, chosen = p.clone(), torch.full_like(tokens, NO_CHILD)
    law, drawn, elders = p[:, :0], tokens[:, :0], depths[:0]
    for nodes, parents in ((a.to(device), b.to(device)) for a, b in tree.generations):
        if q is None:
            law = torch.nn.functional.one_hot(tokens[:, nodes], p.shape[-1]).to(p.dtype)
        elif not len(elders):
            law = q[:, parents]
        else:
            # Both are in order, and whoever has a further child has had one before.
            kept = torch.searchsorted(elders, parents)
            law = without(law[:, kept], drawn[:, kept])
        drawn, elders = tokens[:, nodes], parents
        order = depths[None, parents]
        drafts = Drafts(p=left[:, parents], q=law, tokens=drawn, order=order, age=torch.zeros_like(order))
        accepted = rule.accept(drafts, u[:, nodes]) & (chosen[:, parents] == NO_CHILD)
        chosen[:, parents] = torch.where(accepted, nodes, chosen[:, parents])
        left[:, parents] = rule.leftover(drafts)
    return chosen, left
