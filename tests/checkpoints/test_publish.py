"""Publishing with the real client: one commit or none, taken up again, never over something else."""

import dataclasses
import json

import pytest
import torch

from backbones.errors import RowcastError
from checkpoints import load_heads
from checkpoints.bundle import load_bundle
from checkpoints.package import pack
from checkpoints.places import HubPlace
from checkpoints.publish import licence_of, publish
from checkpoints.token import required_token
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, random_heads, save
from tests.checkpoints.hub_state import TOKEN

pytestmark = pytest.mark.integration

ME = HubPlace("me/heads")
OWN = {"README.md", "config.json", "heads.safetensors"}


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone()


@pytest.fixture
def bundle(tmp_path, backbone):
    save(tmp_path / "bundle", random_bank(backbone), backbone)
    return tmp_path / "bundle"


def up(folder, place=ME, private=False):
    package = pack(folder, place, base_model=None, licence=licence_of)
    return publish(package, place, private=private, token=required_token())


def refused(message, *words, **options):
    with pytest.raises(RowcastError, match=message) as caught:
        up(*words, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert TOKEN not in text


def test_a_published_bundle_is_loaded_by_name_and_then_offline(hub, bundle, backbone, offline, capfd):
    done = up(bundle)
    assert done.url == f"{hub.url}/me/heads"
    assert hub.files("me/heads").keys() == {*OWN, ".gitattributes"}
    assert (hub.commits("me/heads"), hub.count("POST", "/commit/")) == (2, 1)
    loaded, saved = load_heads("me/heads", backbone), load_bundle(bundle, backbone).bank
    assert all(torch.equal(loaded.state_dict()[name], weight) for name, weight in saved.state_dict().items())
    asked = len(hub.requests)
    offline()
    assert load_heads("me/heads", backbone).labels == saved.labels
    assert load_heads(f"me/heads@{done.commit}", backbone).labels == saved.labels
    assert len(hub.requests) == asked
    with pytest.raises(RowcastError, match=r"folder me/others, .* Cannot find .* the hub needs a network"):
        load_heads("me/others", backbone)


def test_an_upload_that_breaks_off_shows_nothing_and_is_taken_up_again(hub, bundle, backbone):
    hub.cut = "PUT", "/lfs/"
    refused("to publish to me/heads, found: .*; the same command again goes on", bundle)
    assert hub.files("me/heads").keys() == {".gitattributes"}
    hub.cut = "POST", "/commit/"
    refused("to publish to me/heads, found", bundle)
    assert hub.files("me/heads").keys() == {".gitattributes"}
    hub.cut, stored = None, hub.count("PUT", "/lfs/")
    up(bundle)
    assert hub.count("PUT", "/lfs/") == stored, "what the hub has is not sent again"
    assert hub.commits("me/heads") == 2
    assert load_heads("me/heads", backbone).labels


def test_a_lost_answer_makes_no_second_commit(hub, bundle):
    hub.cut, hub.lose_answers = ("POST", "/commit/"), True
    refused("to publish to me/heads, found", bundle)
    hub.cut = None
    done = up(bundle)
    assert hub.commits("me/heads") == 2
    assert done.commit == hub.repositories["me/heads"].branches["main"][-1].oid


def test_the_same_heads_trained_longer_replace_the_old_ones(hub, bundle, backbone):
    up(bundle)
    hub.files("me/heads").update({"results.json": b"{}", "notes.txt": b"mine"})
    save(bundle, random_bank(backbone, seed=1), backbone)
    up(bundle)
    there = hub.files("me/heads")
    assert there.keys() == {*OWN, ".gitattributes", "notes.txt"}, (
        "results of the old heads go, other files stay"
    )
    assert there["heads.safetensors"] == (bundle / "heads.safetensors").read_bytes()


def test_heads_of_another_backbone_or_kind_are_not_written_over(hub, bundle, backbone):
    up(bundle)
    before = dict(hub.files("me/heads"))
    other = tiny_backbone(seed=1)
    save(bundle, random_bank(other), other)
    refused(r"ssd heads for tiny \w+ at me/heads, found ssd heads for tiny \w+ \(fingerprint\): name", bundle)
    save(bundle, random_heads(backbone, "mtp"), backbone)
    refused(r"mtp heads for tiny .* found ssd heads .* \(kind\): name another repo=", bundle)
    assert hub.files("me/heads") == before
    assert hub.count("PUT", "/lfs/") == 1, "nothing was uploaded either"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"model.safetensors": b"x"},
            "empty repository or one of such heads .* found model.safetensors there",
        ),
        (
            {"config.json": b'{"model_type": "llama"}'},
            "expected heads that this version .* found another config.json: name",
        ),
        ({"config.json": b"[" * 2_000_000}, "found a config.json of 2,000,000 bytes"),
    ],
)
def test_what_is_no_bundle_is_not_written_over(hub, bundle, files, message):
    hub.seed("me/heads", files)
    refused(message, bundle)
    assert hub.files("me/heads") == files


def test_a_repository_with_a_page_alone_is_taken(hub, bundle):
    hub.seed("me/heads", {"README.md": b"---\nlicense: mit\n---\n", ".gitattributes": b""})
    up(bundle)
    assert b"Draft heads for tiny" in hub.files("me/heads")["README.md"]


def test_a_branch_is_made_and_holds_heads_of_its_own(hub, bundle, backbone):
    up(bundle)
    main = dict(hub.files("me/heads"))
    other = tiny_backbone(seed=1)
    save(bundle, random_bank(other), other)
    place = dataclasses.replace(ME, revision="try/v2")
    hub.cut = "POST", "/commit/"
    refused("to publish to me/heads@try/v2, found", bundle, place)
    hub.cut = None
    assert up(bundle, place).url.endswith("/me/heads/tree/try/v2")
    assert hub.files("me/heads") == main
    assert load_heads("me/heads@try/v2", other).labels
    with pytest.raises(RowcastError, match="found fingerprint"):
        load_heads("me/heads", other)
    save(bundle, random_bank(backbone), backbone)
    refused("at me/heads@try/v2, found ssd heads", bundle, place)


def test_private_means_private(hub, bundle, backbone, monkeypatch):
    up(bundle, private=True)
    assert hub.repositories["me/heads"].private
    assert load_heads("me/heads", backbone).labels
    hub.seed("me/open", {})
    refused("expected me/open to be private, found it public", bundle, HubPlace("me/open"), private=True)
    assert hub.files("me/open") == {}
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(RowcastError, match=r"found: 401 .*HF_TOKEN if the heads are private"):
        load_heads("me/heads@" + "0" * 40, backbone)


def test_another_commit_meanwhile_is_noticed(hub, bundle, monkeypatch):
    up(bundle)
    (bundle / "results.json").unlink(missing_ok=True)
    import checkpoints.publish as module

    before = module._require_same_heads

    def meanwhile(*words):
        before(*words)
        hub.seed("me/heads", hub.files("me/heads"))

    monkeypatch.setattr(module, "_require_same_heads", meanwhile)
    config = json.loads((bundle / "config.json").read_text())
    (bundle / "config.json").write_text(json.dumps({**config, "metrics": {"loss": 1.0}}))
    refused("A commit has happened since", bundle)


def test_without_a_token_or_with_a_wrong_one(hub, bundle, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused("found: .*401 .*must be logged in; .*HF_TOKEN needs write access", bundle)
    hub.seed("me/heads", {})
    refused("found: .*403 .*HF_TOKEN needs write access", bundle)
    monkeypatch.delenv("HF_TOKEN")
    refused("found no HF_TOKEN: make one", bundle)
