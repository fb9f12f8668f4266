"""One step of a tree of drafts: feed it below the last final token, judge it, keep the path that stays."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Step
from decoding.clock import Clock
from decoding.kernel import sample
from decoding.rules.rule import Rule
from decoding.rules.tree import Tree, judge
from decoding.session import Session


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What a tree of T nodes came to."""

    step: Step
    """The forward's entries, one a node."""
    p: Float[Tensor, "N T V"]
    """The law of the token after each node."""
    chosen: Int[Tensor, "N T"]
    """Each node's child that stays, 0 for none."""
    left: Float[Tensor, "N T V"]
    """The law of the token after each node where none of its children stays."""
    path: list[int]
    """The nodes that are final now, the root first."""


def advance_tree(
    session: Session,
    clock: Clock,
    tree: Tree,
    tokens: Int[Tensor, "N T"],
    *,
    rule: Rule,
    q: Float[Tensor, "N T V"] | None = None,
) -> Walk:
    """Feeds a tree and moves on along its path, then by one token from what is left of the law there.

    The session's last final token is the root; it has not been fed. Afterwards the same holds, unless the
    image is finished. Drafts that the session holds beyond the new final tokens stay as they are. One host
    synchronisation: masks and places are shared by a batch, so there is one image at a time.

    Args:
        session: the image.
        clock: gets the laps "forward", "verify" and "commit".
        tree: shape of the T nodes; none may stand beyond the grid.
        tokens: their codes, the root's among them.
        rule: the test of a draft.
        q: law of the children of each node, as `judge` has it.
    """
    root, grid = session.cached, session.grid
    if session.committed != root + 1:
        raise ValueError(f"a tree hangs below the last final token, {session.committed - 1}, not {root}")
    step = session.backbone.forward_at(tokens, [root + depth for depth in tree.depths], tree.sees(root))
    session.trace.forwards += 1
    session.trace.fed += tree.size
    clock.lap("forward")
    u, p = session.uniform(tree.size), session.law(step.logits)
    chosen, left = judge(tree, tokens, p, u, rule=rule, q=q)
    path = tree.path(chosen[0].tolist())
    last = sample(left[:, path[-1]], u[:, 0])
    clock.lap("verify")
    stop = root + len(path)
    session.tokens[:, root:stop] = tokens[:, path]
    session.states[:, root + 1 : stop + 1] = step.hidden[:, path]
    if stop < grid.size:
        session.tokens[:, stop] = last
    session.backbone.keep_entries([*range(root), *(root + node for node in path)])
    session.cached = stop
    committed = min(stop + 1, grid.size)
    session.end = max(session.end, committed)
    session.finalise(committed)
    session.steps += 1
    clock.lap("commit")
    return Walk(step=step, p=p, chosen=chosen, left=left, path=path)
