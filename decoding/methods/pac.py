"""SJD-PAC (arXiv 2603.18599): speculative Jacobi decoding by maximal coupling, with a tree at the front.

Where the window breaks, all drafts behind the break are stale, so the first few places get several each.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from decoding.advance import record
from decoding.advance_tree import advance_tree
from decoding.clock import Clock
from decoding.generation import Round
from decoding.kernel import sample
from decoding.methods.jacobi import Jacobi
from decoding.options.jacobi import JacobiOptions
from decoding.options.spatial import PACOptions
from decoding.rules.tree import NO_CHILD, Tree, draw_distinct, without
from decoding.session import Session


class SJDPAC(Jacobi):
    """The window is the spine of the tree: node i stands i places after the last final token.

    At each of the first `depth` places there are `width - 1` more drafts, drawn from the spine draft's own
    law without replacement. Where the spine breaks and one of them stays, the forward has judged it too, and
    its output gives one token more.

    Lossless: siblings are tested one after another for what is left of the law. What becomes of a spine draft
    behind the break is the result of the same test, so it follows the law that it was tested for, and most
    often it stays: maximal coupling, with more than one draft to couple to.
    """

    name = "sjd_pac"

    def __init__(self, options: PACOptions) -> None:
        super().__init__(JacobiOptions(window=options.window, coupling="maximal"))
        self.depth, self.width = options.depth, options.width

    def advance(self, session: Session, clock: Clock) -> None:
        start, spine = session.committed, session.end - session.cached
        tree = bush(spine, self.depth, self.width)
        tokens, q = self._grow(session, tree, spine)
        clock.lap("draft")
        walk = advance_tree(session, clock, tree, tokens, rule=self.rule, q=q)
        # Below node i of the spine stands what the test of its children made of draft i + 1.
        chosen = walk.chosen[:, : spine - 1]
        stood = chosen == torch.arange(1, spine, device=chosen.device)
        drawn = sample(walk.left[:, : spine - 1], session.uniform(spine - 1))
        after = torch.where(chosen == NO_CHILD, drawn, tokens.gather(1, chosen))
        first = min(len(walk.path), spine - 1)
        session.tokens[:, session.committed : session.end] = after[:, first:]
        session.q = walk.p[:, first : spine - 1]
        record(session, start, stood, ~stood)
        _record_siblings(session, start, tree, walk.path)
        clock.lap("verify")

    def _grow(
        self, session: Session, tree: Tree, spine: int
    ) -> tuple[Int[Tensor, "N T"], Float[Tensor, "N T V"] | None]:
        """The codes of the nodes, and the law that the children of each were drawn from."""
        tokens = session.tokens[:, session.cached : session.end]
        if spine == 1:
            return tokens, None
        below = torch.tensor(tree.depths, device=tokens.device).clamp_max(spine - 2)
        reach = min(self.depth, spine - 1)
        if tree.size > spine:
            u = session.uniform(reach * (self.width - 1)).unflatten(1, (reach, self.width - 1))
            first = tokens[:, 1 : reach + 1]
            others = draw_distinct(without(session.q[:, :reach], first), u)
            tokens = torch.cat([tokens, others.flatten(1)], 1)
        return tokens, session.q[:, below]


@lru_cache(maxsize=256)
def bush(spine: int, depth: int, width: int) -> Tree:
    """A spine of nodes, and `width - 1` leaves beside each of its drafts down to `depth`."""
    leaves = (parent for parent in range(min(depth, spine - 1)) for _ in range(width - 1))
    return Tree((*range(-1, spine - 1), *leaves))


def _record_siblings(session: Session, start: int, tree: Tree, path: list[int]) -> None:
    """Adds the test of the further drafts at the place where the spine broke, if it has any there."""
    broken = next((place for place, node in enumerate(path) if node != place), len(path))
    if tree.parents.count(broken - 1) > 1:
        caught = torch.tensor([[broken < len(path)]])
        session.trace.rounds.append(
            Round(
                index=0,
                positions=torch.tensor([start + broken - 1]),
                offsets=["sibling"],
                accepted=caught,
                changed=~caught,
            )
        )
