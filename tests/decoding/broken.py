"""Rules broken on purpose: what the tests of exactness must catch."""

from decoding.methods.ssd import SSD


def unshifted(session, step):
    """In place of `engine._laws`: each token is judged by the law of the token after it."""
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

    def accept(self, p, q, tokens, u):
        accepted = super().accept(p, q, tokens, u)
        self.kept = accepted if self.kept is None else accepted | self.kept
        return self.kept
