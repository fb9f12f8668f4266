"""Growing a tree of drafts: the drafter follows the final tokens, then branches into likely continuations."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoding.options.drafters import EagleOptions
from decoding.rules.tree import Tree
from decoding.session import Session
from heads.eagle import EagleDrafter


class Drafter:
    """The drafter beside one session.

    Its cache holds the final tokens with their true states; what it adds for drafts, whose states are its own
    predictions, is forgotten with each new tree.
    """

    def __init__(self, session: Session, weights: EagleDrafter) -> None:
        """Starts with an empty cache."""
        self.session, self._weights = session, weights
        self._cache = weights.new_cache(session.grid.size)
        self._followed = 0

    def follow(self) -> tuple[Float[Tensor, "GN 1 D"], Bool[Tensor, "1 E"]]:
        """Catches up with the final tokens; the state predicted after the last, and what its pair sees."""
        past, stop, session = self._followed, self.session.committed, self.session
        self._cache.keep(past)
        places = torch.arange(past, stop, device=session.tokens.device)
        sees = places[:, None] >= torch.arange(stop, device=places.device)
        hidden = self._weights(*session.pairs(past, stop), places, sees, self._cache)
        session.trace.head_calls += 1
        self._followed = stop
        return hidden[:, -1:], sees[-1:]

    def branch(
        self,
        states: Float[Tensor, "GN F D"],
        tokens: Int[Tensor, " F"],
        depth: int,
        sees: Bool[Tensor, "F E"],
    ) -> tuple[Float[Tensor, "GN F D"], Bool[Tensor, "F E2"]]:
        """Goes on from F drafts of one depth: the states predicted after them, and what their pairs see.

        Args:
            states: predicted ones, that emitted the drafts.
            tokens: the drafts.
            depth: their steps from the last final token.
            sees: what the pair before each sees.
        """
        session, count = self.session, len(tokens)
        embeddings = session.backbone.embed(tokens).expand(len(states), -1, -1)
        places = torch.full((count,), session.committed - 1 + depth, device=tokens.device)
        sees = torch.cat([sees, torch.eye(count, dtype=torch.bool, device=sees.device)], 1)
        session.trace.head_calls += 1
        return self._weights(states, embeddings, places, sees, self._cache), sees

    def law(self, states: Float[Tensor, "GN F D"]) -> Float[Tensor, "F V"]:
        """What candidates are ranked by."""
        backbone = self.session.backbone
        return self.session.likelihoods(backbone.head(states.to(backbone.dtype)))[0]


def grow(drafter: Drafter, options: EagleOptions) -> tuple[Tree, Int[Tensor, "1 T"]]:
    """A tree below the last final token, and its tokens, that one's among them.

    Depth by depth, the likeliest drafts get children; of all candidates the likeliest make the tree. A draft
    is as likely as its whole path: the product of the drafter's probabilities, or for a static tree of 1/2,
    1/4, 1/8 and so on for the first, second, third child of a node, so that the tree always looks the same
    (20 of the 25 nodes of EAGLE's published one are in ours of that size). One host synchronisation for a
    dynamic tree, none for a static one.
    """
    session, dynamic = drafter.session, options.tree == "dynamic"
    width = min(options.children, session.backbone.codes)
    deepest = min(options.depth, session.grid.size - session.committed)
    hidden, sees = drafter.follow()
    guess = 0.5 ** torch.arange(1.0, width + 1)
    scores, tokens, parents = [], [], []
    score, frontier, seen = guess.new_ones(1), torch.tensor([-1]), 0
    if dynamic:
        score, frontier = score.to(hidden.device), frontier.to(hidden.device)
    for depth in range(1, deepest + 1):
        likely = drafter.law(hidden).topk(width)
        score = (score[:, None] * (likely.values if dynamic else guess)).flatten()
        scores.append(score)
        tokens.append(likely.indices.flatten())
        parents.append(frontier.repeat_interleave(width))
        if depth == deepest:
            break
        best = _best(score, options.children)
        score, frontier, seen = score[best], seen + best, seen + len(score)
        above = best // width
        hidden, sees = drafter.branch(hidden[:, above], tokens[-1][best], depth, sees[above])
    kept = _best(torch.cat(scores), options.nodes).sort().values
    nodes, above = torch.stack([kept, torch.cat(parents)[kept]]).tolist()
    numbers = {-1: 0} | {node: number for number, node in enumerate(nodes, 1)}
    tree = Tree((-1, *(numbers[parent] for parent in above)))
    root = session.tokens[:, session.committed - 1 : session.committed]
    return tree, torch.cat([root, torch.cat(tokens)[kept][None]], 1)


def _best(score: Float[Tensor, " S"], count: int) -> Int[Tensor, " K"]:
    """The first `count` by score. Of equals the earlier comes first: no draft overtakes its parent."""
    return score.sort(descending=True, stable=True).indices[:count]
