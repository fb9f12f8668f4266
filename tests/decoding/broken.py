"""Rules broken on purpose: what the tests of exactness must catch."""

import torch

from decoding.methods.jacobi import SJD
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


class HastyJacobi(Hasty, SJD):
    pass


class CachedDraft(SSDExact):
    """Leaves the draft in the cache whose token changed, and goes on from there."""

    def propose(self, session):
        if session.cached == session.committed:
            session.end, session.q = session.committed, session.q[:, :0]
        return super().propose(session)

    def commit(self, session, changed):
        super().commit(session, changed)
        return session.committed
