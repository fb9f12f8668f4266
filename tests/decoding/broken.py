"""Rules broken on purpose: what the tests of exactness must catch."""

from dataclasses import replace

import torch

from decoding.methods import jacobi
from decoding.methods.jacobi import Jacobi
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact


def unshifted(session, step):
    """In place of `advance._laws`: each token is judged by the law of the token after it."""
    first, last = session.committed - session.cached, session.end - session.cached
    return session.law(step.logits[:, first:last])


class StaleLaws(SSD):
    """After a round, tokens still count as drawn from the heads."""

    def propose(self, session):
        going = super().propose(session)
        if going and session.ages[session.end - 1] == 0:
            self.first = session.q
        session.q = self.first[:, -session.q.shape[1] :] if session.q.shape[1] else session.q
        return going


class FrozenTokens(SSD):
    """What was accepted once is never judged again."""

    def propose(self, session):
        going = super().propose(session)
        if going and session.ages[session.end - 1] == 0:
            self.kept = None
        return going

    def accept(self, drafts, u):
        accepted = super().accept(drafts, u)
        self.kept = accepted if self.kept is None else accepted | self.kept
        return self.kept


class KeptLaws(SSDExact):
    """After a round, accepted tokens still count as drawn from the law before it."""

    def accept(self, drafts, u):
        self.accepted, self.before = super().accept(drafts, u), drafts.q
        return self.accepted

    def commit(self, session, changed):
        session.q = torch.where(self.accepted[..., None], self.before, session.q)
        return super().commit(session, changed)


class Hasty:
    """Commits one token past the first change."""

    def commit(self, session, changed):
        kept = super().commit(session, changed)
        session.finalise(min(session.committed + 1, session.end))
        return kept


class HastyCommit(Hasty, SSDExact):
    pass


class HastyJacobi(Hasty, Jacobi):
    pass


class KeptCoupling(Jacobi):
    """Drafts that the coupling left alone still count as drawn from the law before (the public SCD code)."""

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        laws = torch.where(verdict.accepted[..., None], drafts.q, verdict.laws)
        return replace(verdict, laws=laws)


class RatioReuse(Jacobi):
    """Drafts stay if their probability has not fallen much, and then count as drawn from the new law."""

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        changed = (verdict.tokens != drafts.tokens).int()
        later = changed.cumsum(1) > changed
        kept = later & (drafts.of(drafts.p) > 0.5 * drafts.of(drafts.q))
        return replace(verdict, tokens=torch.where(kept, drafts.tokens, verdict.tokens))


class LatestLaws(Jacobi):
    """Drafts from the posterior count as drawn from the law that it was made of."""

    def judge(self, session, drafts, u_accept, u_draw):
        return replace(super().judge(session, drafts, u_accept, u_draw), laws=drafts.p)


class GumbelVerdict(Jacobi):
    """The noise that chose a draft also chooses what replaces it."""

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        again = jacobi.race(self.rule.leftover(drafts), jacobi.clocks(session))
        return replace(verdict, tokens=torch.where(verdict.accepted, verdict.tokens, again))


class CachedDraft(SSDExact):
    """Leaves the draft in the cache whose token changed, and goes on from there."""

    def propose(self, session):
        if session.cached == session.committed:
            session.end, session.q = session.committed, session.q[:, :0]
        return super().propose(session)

    def commit(self, session, changed):
        super().commit(session, changed)
        return session.committed
