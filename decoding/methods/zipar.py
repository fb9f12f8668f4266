"""ZipAR (arXiv 2412.04062): every row starts before the one above it ends, one token a row and forward."""

from jaxtyping import Float, Int
from torch import Tensor

from decoding.advance import record
from decoding.clock import Clock
from decoding.kernel import sample
from decoding.methods.method import Method
from decoding.methods.rows import Front, emitted_by, finished, rows_of
from decoding.options.spatial import ZipAROptions
from decoding.rules.rule import Drafts
from decoding.session import Session


class ZipAR(Method):
    """A row starts when the one above holds `window` tokens; each token sees what there is of earlier rows.

    Lossy, as nothing makes up for what was missing; with a window of a whole row it is autoregression.

    The adaptive form tries a row's first token again, while it is fed, when the row above has one token more.
    With probability min(1, p_new / p_old) it stays and the row has started; otherwise it is replaced from the
    residual and tried again. So a row waits until its start no longer depends on what the row above adds.
    """

    name = "zipar"
    lossless = False

    def __init__(self, options: ZipAROptions) -> None:
        self.window, self.adaptive = options.window, options.adaptive
        self.lockstep = not options.adaptive

    def propose(self, session: Session) -> bool:
        return not finished(session)

    def advance(self, session: Session, clock: Clock) -> None:
        rows = rows_of(session)
        fronts, first = rows.fronts(self.window), rows.next * rows.cols
        if "trial" in session.memory:
            fronts.append(Front(place=first, token=first, emitted=range(first + 1, first + 2)))
        step, emitted = rows.feed(session, fronts), emitted_by(fronts)
        clock.lap("forward")
        law = session.law(step.logits)
        drawn = sample(law, session.uniform(len(emitted)))
        waiting: list[int] = []
        if self.adaptive and first in emitted:
            at = emitted.index(first)
            drawn[:, at], waiting = self._open(session, first, law[:, at], drawn[:, at])
        session.tokens[:, emitted] = drawn
        for place in emitted:
            rows.counts[place // rows.cols] += place not in waiting
        clock.lap("verify")

    def _open(
        self, session: Session, first: int, p: Float[Tensor, "N V"], drawn: Int[Tensor, " N"]
    ) -> tuple[Int[Tensor, " N"], list[int]]:
        """Draws a row's first token by its new law p, or tests it; also says what is not final of the row."""
        q = session.memory.pop("trial", None)
        token, waiting = drawn, [first]
        if q is None:
            session.labels[first] = "opening"
        else:
            tokens = session.tokens[:, first]
            drafts = Drafts(p=p, q=q, tokens=tokens, order=tokens * 0, age=tokens * 0 + session.ages[first])
            u = session.uniform(2)
            accepted = self.rule.accept(drafts, u[:, 0])
            token = self.rule.repair(drafts, accepted, u[:, 1])
            record(session, first, accepted[:, None], (token != tokens)[:, None])
            # The token after it was drawn behind the one that was fed.
            waiting = [] if accepted.all() else [first, first + 1]
        if rows_of(session).full(first // session.grid.cols - 1):
            waiting = waiting[1:]  # the law is as exact as it gets
        if first in waiting:
            session.memory["trial"] = p
        return token, waiting
