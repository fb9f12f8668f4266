"""Speculative Jacobi decoding and its relatives: a window of untrained drafts that are refined together.

One method with options: sjd (arXiv 2410.01699), mc_sjd and mc_sjd_gumbel (2510.24211), gsd and its baselines
(2508.07747), csd (2606.27829), cool_sd (2601.09212), sjd_vp (2603.27115) and LANTERN's test over such drafts.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from decoding.advance import Verdict
from decoding.kernel import race, sample
from decoding.methods.growth import Growth
from decoding.methods.window import Window
from decoding.options.jacobi import GrowthPosterior, JacobiOptions
from decoding.rules import build_rule
from decoding.rules.rule import Drafts, Strict
from decoding.session import Session


class Jacobi(Window):
    """The rule judges drafts; the coupling and the posterior say what the drafts after a replaced one become.

    Lossless whenever the rule is: the next drafts are drawn from a law that the other positions decide, by
    randomness of their own position, and that law is what `q` records.
    """

    name = "jacobi"

    def __init__(self, options: JacobiOptions) -> None:
        super().__init__(options.window)
        self.options = options
        self.rule = build_rule(options.rule)
        self.lossless = self.rule.lossless
        self.growth = Growth(options.posterior) if isinstance(options.posterior, GrowthPosterior) else None

    def judge(
        self, session: Session, drafts: Drafts, u_accept: Float[Tensor, "N m"], u_draw: Float[Tensor, "N m"]
    ) -> Verdict:
        if isinstance(self.rule, Strict) and self.options.coupling == "maximal" and self.growth is None:
            return super().judge(session, drafts, u_accept, u_draw)  # the test is that coupling
        accepted = self.accept(drafts, u_accept)
        repaired = self.repair(drafts, accepted, u_draw)
        replaced = (repaired != drafts.tokens).int()
        stale = replaced.cumsum(1) > replaced
        laws = self._laws(session, drafts)
        # With the same numbers again: a position keeps one of the two, and earlier positions decide which.
        redrawn = self._redraw(session, replace(drafts, p=laws), u_accept, u_draw)
        # What is not stale is final now, so that `laws` are those of all drafts that remain.
        return Verdict(accepted=accepted, tokens=torch.where(stale, redrawn, repaired), laws=laws)

    def _laws(self, session: Session, drafts: Drafts) -> Float[Tensor, "N m V"]:
        """The laws that the next drafts are drawn from."""
        if self.growth is None:
            return drafts.p
        history = session.memory.get("growth")
        laws, session.memory["growth"] = self.growth(drafts, session.committed, history)
        return laws

    def _redraw(
        self, session: Session, drafts: Drafts, u_accept: Float[Tensor, "N m"], u_draw: Float[Tensor, "N m"]
    ) -> Int[Tensor, "N m"]:
        """Drafts by the laws `drafts.p`, whatever the rule."""
        match self.options.coupling:
            case "resample":
                return sample(drafts.p, u_draw)
            case "maximal":
                strict = Strict()
                return strict.repair(drafts, strict.accept(drafts, u_accept), u_draw)
            case _:
                return race(drafts.p, clocks(session))

    def extend(self, session: Session, limit: int) -> None:
        """Any token that the other positions decide is a draft with all mass on it.

        The first column has no left neighbour, and further drafts lean on the last token that is known.
        """
        codes, cols, count = session.backbone.codes, session.grid.cols, limit - session.end
        tokens = (session.uniform(count) * codes).long()
        labels = ["random"] * count
        if self.options.start != "random":
            inside = [position % cols > 0 for position in range(session.end, limit)]
            tokens = torch.where(torch.tensor(inside, device=tokens.device), self._left(session), tokens)
            labels = ["left" if flag else "random" for flag in inside]
        session.place(tokens, torch.nn.functional.one_hot(tokens, codes).float(), labels)

    def _left(self, session: Session) -> Int[Tensor, "N 1"]:
        last = slice(session.end - 1, session.end)
        if self.options.start == "repeat_left":
            return session.tokens[:, last]
        return session.law(session.backbone.head(session.states[:, last])).argmax(-1)


def clocks(session: Session) -> Float[Tensor, "N m V"]:
    """The Gumbel noise of every draft, which is fixed as long as the position is open.

    In its exponential form, -log u: what `race` takes.
    """
    start, rows = session.memory.get("clocks", (session.committed, session.q[:, :0]))
    rows = rows[:, session.committed - start :]
    images, codes = len(session.tokens), session.backbone.codes
    missing = session.end - session.committed - rows.shape[1]
    fresh = -session.uniform(missing * codes).view(images, missing, codes).log()
    rows = torch.cat([rows, fresh.float()], 1)
    session.memory["clocks"] = session.committed, rows
    return rows
