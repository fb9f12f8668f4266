"""Where a backbone came from reaches the page of its heads: base model, commit, licence."""

import pytest
import yaml

from backbones.registry import load_backbone
from checkpoints import load_heads
from checkpoints.config import read_config
from checkpoints.package import pack
from checkpoints.places import HubPlace
from checkpoints.publish import licence_of, publish
from tests.backbones.checkpoints.families import SUBJECTS
from tests.checkpoints.bundles import random_bank, save
from tests.checkpoints.hub_state import TOKEN

pytestmark = pytest.mark.integration

PAGE = b"---\nlicense: other\nlicense_name: deepseek\n---\n"


def seed(hub, tmp_path, name="janus"):
    options = SUBJECTS[name].write(tmp_path / name)
    files = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
    return options, hub.seed(f"them/{name}", {**files, "README.md": PAGE})


def test_the_base_model_is_named_with_its_commit_and_licence(hub, tmp_path):
    options, commit = seed(hub, tmp_path)
    backbone = load_backbone("janus", device="cpu", **{**options, "path": "them/janus"})
    assert backbone.source == f"them/janus@{commit}"
    save(tmp_path / "heads", random_bank(backbone), backbone)
    assert read_config(tmp_path / "heads").backbone.source == backbone.source
    package = pack(tmp_path / "heads", HubPlace("me/heads"), base_model=None, licence=licence_of)
    publish(package, HubPlace("me/heads"), private=False, token=TOKEN)
    page = hub.files("me/heads")["README.md"].decode()
    assert yaml.safe_load(page.split("---")[1])["base_model"] == "them/janus"
    assert f"[them/janus](https://huggingface.co/them/janus) at revision `{commit}`" in page
    assert "by its page on the hub: deepseek" in page
    assert f"model.path=them/janus model.revision={commit} model.dtype=float32" in page
    local = load_backbone("janus", device="cpu", **options)
    assert local.source is None
    assert load_heads("me/heads", local).labels, "the same weights from a folder are the same backbone"


def test_a_file_of_a_repository_is_named_as_such(hub, tmp_path):
    options, commit = seed(hub, tmp_path, "llamagen_c2i")
    file = options["path"].name if hasattr(options["path"], "name") else options["path"].rpartition("/")[2]
    place = {**options, "path": f"them/llamagen_c2i/{file}", "pixels": None}
    loaded = load_backbone("llamagen_c2i", device="cpu", **place)
    assert loaded.source == f"them/llamagen_c2i/{file}@{commit}"


def test_weights_that_come_along_have_no_source(hub):
    assert load_backbone("pocket", device="cpu").source is None
    assert load_backbone("pocket", device="cpu", weights="random").source is None
    assert hub.requests == []


def test_a_licence_that_is_not_known(hub, monkeypatch):
    hub.seed("them/plain", {"README.md": b"hello"})
    assert licence_of("them/plain") is None
    assert licence_of("them/nothing") is None
    hub.cut = "GET", "/api/models"
    assert licence_of("them/plain") is None
