"""EAGLE and, with a pooled rule, LANTERN: trees of drafts by a small drafter that runs token by token."""

from collections.abc import Sequence

import torch

from decoding.advance_tree import advance_tree
from decoding.clock import Clock
from decoding.generation import Round
from decoding.methods.method import Method
from decoding.methods.tree_drafts import Drafter, grow
from decoding.options.drafters import EagleOptions
from decoding.rules import build_rule
from decoding.rules.tree import Tree
from decoding.session import Session
from heads.eagle import EagleDrafter
from heads.offsets import Ahead


class Eagle(Method):
    """One forward a tree: the path that stands is final, and one more token drawn at its end.

    Each depth's drafts are the drafter's most likely codes, chosen without chance, so a draft x stands with
    probability p(x), and a rejected one leaves the law without it. With the strict rule that is lossless;
    with a pooled rule (LANTERN, arXiv 2410.03355) a draft also counts the mass of its neighbours. The tree is
    that of EAGLE-2 (arXiv 2406.16858), or a static one as in LANTERN++ (arXiv 2502.06352). Both guidance
    branches are drafted, and the guided law decides.
    """

    name = "eagle"
    lockstep = False

    def __init__(self, options: EagleOptions, drafter: EagleDrafter) -> None:
        """Pairs the shape of the trees with the drafter that fills them."""
        self.options, self.drafter = options, drafter
        self.rule = build_rule(options.rule)
        self.lossless = self.rule.lossless

    def propose(self, session: Session) -> bool:
        if session.committed == 0:
            session.draw_next()
            session.memory["drafter"] = Drafter(session, self.drafter)
        if session.committed == session.grid.size:
            return False
        session.memory["tree"] = grow(session.memory["drafter"], self.options)
        return True

    def advance(self, session: Session, clock: Clock) -> None:
        tree, tokens = session.memory["tree"]
        root = session.cached
        walk = advance_tree(session, clock, tree, tokens, rule=self.rule)
        _record(session, tree, walk.path, root)


def _record(session: Session, tree: Tree, path: Sequence[int], root: int) -> None:
    """Adds the depths that were tried: a draft stood at each depth of the path, and none below its end."""
    stood = len(path) - 1
    tried = stood + (path[-1] in tree.parents)
    accepted = torch.arange(tried)[None] < stood
    session.trace.rounds.append(
        Round(
            index=0,
            positions=torch.arange(root + 1, root + 1 + tried),
            offsets=[Ahead(depth).label for depth in range(1, tried + 1)],
            accepted=accepted,
            changed=~accepted,
        )
    )
