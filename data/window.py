"""Which images a process will train on next, and which of them it has to sample: pure bookkeeping."""

from collections import deque
from collections.abc import Container, Iterator


class Window:
    """The next images of one rank, as many as its pool holds, in the order of training.

    An image is sampled by the rank that trains on it first. All ranks see the same steps, so they agree on
    that without a word, and no image is sampled twice.

    Args:
        steps: Every step to come, (epoch, indices of all ranks); endless.
        rank: Takes `indices[rank::world]`.
        world: How many ranks there are.
        images: Size of the set.
        pool: The most images to look ahead.
    """

    def __init__(
        self, steps: Iterator[tuple[int, list[int]]], rank: int, world: int, *, images: int, pool: int
    ) -> None:
        self._steps, self._rank, self._world, self._images = steps, rank, world, images
        self.pool = pool
        self._seen: set[int] = set()
        self._own: set[int] = set()
        self.ahead: deque[int] = deque()
        """What this rank trains on next."""
        self._look()

    @property
    def complete(self) -> bool:
        """Whether every image of the set has come into sight."""
        return len(self._seen) == self._images

    def take(self, image: int) -> None:
        """The trainer has an image: the window moves on."""
        if self.ahead and self.ahead[0] == image:
            self.ahead.popleft()
        self._look()

    def missing(self, made: Container[int]) -> list[int]:
        """The images in sight that this rank has to sample, in the order in which they are needed."""
        return [image for image in self.ahead if image in self._own and image not in made]

    def owns(self, image: int) -> bool:
        """Whether this rank samples an image."""
        return image in self._own

    def fill(self, made: Container[int]) -> int:
        """How many of the next images are there without a gap."""
        for count, image in enumerate(self.ahead):
            if image not in made:
                return count
        return len(self.ahead)

    def _look(self) -> None:
        while len(self.ahead) < self.pool:
            _, indices = next(self._steps)
            own = indices[self._rank :: self._world]
            self._own |= set(own) - self._seen
            self._seen |= set(indices)
            self.ahead += own
