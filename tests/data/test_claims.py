"""Claims: one holder at a time while it is alive, and nobody waits for the dead."""

import json
import os
import socket
import subprocess
import time
from uuid import uuid4

import pytest

from data import claims as module
from data.claims import Claims
from data.storage import open_storage

pytestmark = pytest.mark.unit

NAME = "rollouts-00000000-00000003.tar"


@pytest.fixture(params=["folder", "memory"])
def storage(request, tmp_path):
    return open_storage(tmp_path if request.param == "folder" else f"memory://{uuid4().hex}/set")


def leave(storage, host, pid):
    """A claim as a killed process leaves it."""
    storage.write(f"{NAME}.claim", json.dumps({"host": host, "pid": pid, "token": "x", "beat": 3}).encode())


def test_one_holder_at_a_time(storage):
    one, other = Claims(storage), Claims(storage)
    assert one.take(NAME)
    assert not other.take(NAME)
    assert other.take("another.tar")
    with one.held(NAME):
        assert not other.take(NAME)
    assert other.take(NAME)


def test_a_process_of_this_machine_that_has_ended_holds_nothing(storage):
    with subprocess.Popen(["true"]) as process:
        pass
    leave(storage, socket.gethostname(), process.pid)
    assert Claims(storage).take(NAME)
    leave(storage, socket.gethostname(), os.getpid())
    assert not Claims(storage).take(NAME)


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[]", b"{}"])
def test_another_machine_is_given_its_lease(storage, content):
    """Even if its claim cannot be read: it may be being written."""
    leave(storage, "elsewhere", 1)
    if content is not None:
        storage.write(f"{NAME}.claim", content)
    claims = Claims(storage, lease=0.05)
    assert not claims.take(NAME)
    time.sleep(0.06)
    assert claims.take(NAME)


def test_a_sign_of_life_renews_the_lease(storage, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.02)
    holder, other = Claims(storage), Claims(storage, lease=0.2)
    monkeypatch.setattr(module, "_ended_here", lambda content: False)
    assert holder.take(NAME)
    with holder.held(NAME):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert not other.take(NAME)
            time.sleep(0.02)
    assert other.take(NAME)


def test_who_was_robbed_leaves_the_claim_alone(storage):
    """A process that slept too long finds its shard with somebody else."""
    sleeper, other = Claims(storage), Claims(storage)
    assert sleeper.take(NAME)
    with sleeper.held(NAME):
        storage.remove(f"{NAME}.claim")
        assert other.take(NAME)
    assert not sleeper.take(NAME)
