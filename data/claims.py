"""Who is making which shard, so that processes and machines that share a set do not do the same work.

A claim is a small file beside the set. It is advice: what two processes make of one image is the same and
every write is whole, so a claim that is wrongly taken over costs time and nothing else. That is why plain
files will do, on network file systems and object stores too.

The holder rewrites its claim as it works. A claim is dead when its process is known to have ended, or when
nobody saw it change for a while; clocks of different machines are never compared.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from data.storage import Storage

SUFFIX = ".claim"
BEAT = 10.0
"""Seconds between two signs of life."""
LEASE = 60.0
"""Seconds without a sign of life after which a claim of another machine is dead."""
PAUSE = (0.05, 2.0)
"""Seconds between two looks at what others do: at first, and at most."""


class Claims:
    """The claims of one process on files of a set.

    Args:
        storage: Where the set lies.
        lease: As `LEASE`.
    """

    def __init__(self, storage: Storage, lease: float = LEASE) -> None:
        self._storage = storage
        self._lease = lease
        self._token = uuid4().hex
        self._seen: dict[str, tuple[bytes, float]] = {}

    def take(self, name: str) -> bool:
        """Claims a file, unless a process that is alive has it; `held` keeps the claim alive."""
        claim = name + SUFFIX
        if self._storage.create(claim, self._content(0)):
            return True
        if not self.dead(claim):
            return False
        self._storage.remove(claim)
        return self._storage.create(claim, self._content(0))

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keeps a claim that was taken alive inside the block, and gives it back at its end."""
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(name + SUFFIX, ended), daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            with suppress(OSError):  # then it dies by itself
                if self._is_own(name + SUFFIX):
                    self._storage.remove(name + SUFFIX)

    @contextmanager
    def waited_for(self, name: str) -> Iterator[None]:
        """Takes a claim as soon as it is free, and holds it inside the block."""
        pause = pauses()
        while not self.take(name):
            next(pause)
        with self.held(name):
            yield

    def dead(self, claim: str) -> bool:
        """Whether nobody is behind a claim (a file name with `SUFFIX`) any more."""
        try:
            content = self._storage.read(claim)
        except FileNotFoundError:
            return True
        known, since = self._seen.get(claim, (None, 0.0))
        if content != known:
            self._seen[claim] = (content, time.monotonic())
            return _ended_here(content)
        return _ended_here(content) or time.monotonic() - since >= self._lease

    def _content(self, beat: int) -> bytes:
        # The process is asked for each time: a fork is another one.
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "token": self._token, "beat": beat}
        return json.dumps(holder).encode()

    def _is_own(self, claim: str) -> bool:
        with suppress(OSError):
            return self._token.encode() in self._storage.read(claim)
        return False

    def _beat(self, claim: str, ended: threading.Event) -> None:
        beat = 0
        while not ended.wait(BEAT):
            beat += 1
            # A sign that cannot be given costs at worst that another process does the same work.
            with suppress(OSError):
                if self._is_own(claim):
                    self._storage.write(claim, self._content(beat))


def pauses() -> Iterator[None]:
    """Sleeps longer from one turn to the next."""
    seconds, most = PAUSE
    while True:
        time.sleep(seconds)
        yield
        seconds = min(2 * seconds, most)


def _ended_here(content: bytes) -> bool:
    """Whether a claim is of a process of this machine that has ended."""
    try:
        holder = json.loads(content)
        if holder["host"] != socket.gethostname():
            return False
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OSError):
        return False
    return False
