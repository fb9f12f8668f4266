"""Rules broken on purpose: what the tests of exactness must catch."""

from dataclasses import replace

import torch

from decoding.methods.correct import correct
from decoding.methods.jacobi import Jacobi, clocks
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from decoding.methods.window import Window


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


class CorrectedWithOldLaws(SSDExact):
    """Corrected drafts still count as drawn from the law before the correction."""

    def advance(self, session, clock):
        judged = session.tokens.clone()
        Window.advance(self, session, clock)
        before = session.q.clone()
        correct(session, self.heads, judged, self.corrections)
        session.q = before


class CorrectedInName(SSDExact):
    """Drafts are not redrawn, though they count as drawn from the corrected law."""

    def advance(self, session, clock):
        judged = session.tokens.clone()
        Window.advance(self, session, clock)
        before = session.tokens.clone()
        correct(session, self.heads, judged, self.corrections)
        session.tokens = before


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


class Uniform(Jacobi):
    """Random drafts as what they are on average, draws from a flat law: exact, and broken below."""

    def extend(self, session, limit):
        super().extend(session, limit)
        fresh = torch.tensor(session.ages[session.committed : session.end]) == 0
        session.q[:, fresh] = 1 / session.backbone.codes


class KeptCoupling(Uniform):
    """Drafts that the coupling left alone still count as drawn from the law before (the public SCD code)."""

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        laws = torch.where(verdict.accepted[..., None], drafts.q, verdict.laws)
        return replace(verdict, laws=laws)


class RatioReuse(Uniform):
    """Drafts stay if their probability has not fallen much, and then count as drawn from the new law."""

    def judge(self, session, drafts, u_accept, u_draw):
        verdict = super().judge(session, drafts, u_accept, u_draw)
        changed = (verdict.tokens != drafts.tokens).int()
        later = changed.cumsum(1) > changed
        kept = later & (drafts.of(drafts.p) > 0.1 * drafts.of(drafts.q))
        return replace(verdict, tokens=torch.where(kept, drafts.tokens, verdict.tokens))


class SharedNoise(Jacobi):
    """All positions take their Gumbel noise from one."""

    def judge(self, session, drafts, u_accept, u_draw):
        one = clocks(session)[:, :1]
        session.memory["clocks"] = session.committed, one.expand(-1, session.end - session.committed, -1)
        return super().judge(session, drafts, u_accept, u_draw)


class Sharpened(Jacobi):
    """Another posterior, one far from the law: exact, and broken below."""

    def _laws(self, session, drafts):
        law = drafts.p**3
        return law / law.sum(-1, keepdim=True)


class LatestLaws(Sharpened):
    """Drafts from the posterior count as drawn from the law that it was made of."""

    def judge(self, session, drafts, u_accept, u_draw):
        return replace(super().judge(session, drafts, u_accept, u_draw), laws=drafts.p)


class CachedDraft(SSDExact):
    """Leaves the draft in the cache whose token changed, and goes on from there."""

    def propose(self, session):
        if session.cached == session.committed:
            session.end, session.q = session.committed, session.q[:, :0]
        return super().propose(session)

    def commit(self, session, changed):
        super().commit(session, changed)
        return session.committed
