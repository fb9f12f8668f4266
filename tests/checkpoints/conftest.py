"""A hub on the loopback, and the real client turned to it: another endpoint, a fresh cache, no waits."""

import json
import shutil

import huggingface_hub.constants as settings
import huggingface_hub.utils._http as transport
import pytest

from checkpoints.bundle import attach_results
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import save
from tests.checkpoints.hub_server import running
from tests.checkpoints.hub_state import TOKEN
from tests.eval.tiny import run_tiny, tiny_bank


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running() as hub:
        monkeypatch.setattr(settings, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(settings, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(settings, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(settings, "HF_TOKEN_PATH", str(tmp_path / "no token"))
        monkeypatch.setattr(settings, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(settings, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(transport.time, "sleep", lambda seconds: None)
        yield hub
        transport.close_session()


@pytest.fixture
def offline(monkeypatch):
    """Turns the network off."""
    return lambda: monkeypatch.setattr(settings, "HF_HUB_OFFLINE", True)


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A bundle with the results of a real benchmark of its heads."""
    folder, backbone = tmp_path_factory.mktemp("measured"), tiny_backbone()
    save(folder / "bundle", tiny_bank(), backbone)
    run_tiny(folder / "benchmark")
    attach_results(folder / "bundle", json.loads((folder / "benchmark" / "results.json").read_text()))
    return folder / "bundle"


@pytest.fixture
def bundle(measured, tmp_path):
    return shutil.copytree(measured, tmp_path / "bundle")
