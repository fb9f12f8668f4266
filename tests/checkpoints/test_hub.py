"""Heads by name: what is downloaded, what is not, and what is refused; the client is the real one."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from backbones.errors import RowcastError
from checkpoints import load_heads
from checkpoints.hub import resolve
from eval.attach import require_folders
from eval.heads import find_bundles, load_bundles
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, random_heads
from tests.checkpoints.bundles import save as save_bundle
from train.origin import origin_of
from train.words import expand

pytestmark = pytest.mark.integration

NAME = "predictors.h+1.up.weight"


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone()


@pytest.fixture
def files(tmp_path, backbone):
    """The files of a bundle, as anybody may put them on a hub."""
    save_bundle(tmp_path / "bundle", random_bank(backbone), backbone)
    return {path.name: path.read_bytes() for path in (tmp_path / "bundle").iterdir()}


def refused(place, backbone, message):
    with pytest.raises(RowcastError, match=message) as caught:
        load_heads(place, backbone)
    assert "\n" not in str(caught.value)


def test_only_the_files_of_a_bundle_are_downloaded(hub, files, backbone):
    evil = {
        "pytorch_model.bin": b"pickle",
        "setup.py": b"boom",
        "heads.safetensors.py": b"boom",
        "a/b.json": b"{}",
    }
    hub.seed("me/heads", {**files, **evil})
    folder = resolve("me/heads")
    assert {path.name for path in folder.iterdir()} == files.keys()
    fetched = {path.rpartition("/")[2] for method, path, _ in hub.requests if "/resolve/" in path}
    assert fetched == files.keys()
    assert load_heads("me/heads", backbone).labels


def test_an_inspection_leaves_the_weights_where_they_are(hub, files):
    hub.seed("me/heads", files)
    assert "heads.safetensors" not in {path.name for path in resolve("me/heads", weights=False).iterdir()}
    assert hub.count("GET", "/cdn/") == 0


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub, files, backbone):
    hub.seed("me/heads", files, private=True)
    load_heads("me/heads", backbone)
    assert {bool(token) for _, path, token in hub.requests if not path.startswith("/cdn/")} == {True}
    assert [token for _, path, token in hub.requests if path.startswith("/cdn/")] == [None]


def test_a_revision_is_a_branch_or_a_commit(hub, files, tmp_path, backbone):
    first = hub.seed("me/heads", files)
    save_bundle(tmp_path / "later", random_bank(backbone, horizontal=1), backbone)
    hub.seed("me/heads", {path.name: path.read_bytes() for path in (tmp_path / "later").iterdir()})
    assert load_heads("me/heads", backbone).options.horizontal == 1
    assert load_heads("me/heads@main", backbone).options.horizontal == 1
    assert load_heads(f"me/heads@{first}", backbone).options.horizontal == 3
    refused("me/heads@v9", backbone, "folder me/heads@v9, .* found: 404 .*v9.*; check the path or the name")


def test_a_folder_comes_before_the_hub(hub, tmp_path, monkeypatch, backbone):
    monkeypatch.chdir(tmp_path)
    save_bundle(Path("me/heads"), random_bank(backbone), backbone)
    assert load_heads("me/heads", backbone).labels
    assert hub.requests == []


@pytest.mark.parametrize("place", ["../x", "/x/y", "me/../x", "nowhere", "a/b/c", "me/a--b", "./x"])
def test_what_is_no_name_is_a_folder_and_asks_no_hub(hub, place, backbone):
    refused(place, backbone, "expected a head bundle in .*, found no config.json")
    assert hub.requests == []


@pytest.mark.parametrize("place", ["me/heads@../../x", "me/heads@", "me/heads@a..b", "../x@main", "a/b/c@v1"])
def test_a_revision_that_no_hub_has(hub, place, backbone):
    refused(place, backbone, r"expected a bundle folder or organisation/name\[@revision\], found")
    assert hub.requests == []


@pytest.mark.parametrize("place", ["x" * 5000, "~nobody-of-this-name/heads"])
def test_a_path_that_the_system_cannot_read(hub, place, backbone):
    refused(place, backbone, "expected a place that can be read, found .*: check the path of the heads")
    assert hub.requests == []


def test_what_the_hub_lacks(hub, backbone):
    refused("me/heads", backbone, "which is not there, or on the hub by that name, found: 404")
    hub.seed("me/model", {"README.md": b"hello"})
    refused("me/model", backbone, "expected a head bundle at me/model on the hub, found no config.json")


def test_decoys_are_not_downloaded(hub, files, backbone):
    hub.seed("me/heads", files)
    hub.claimed["heads.safetensors"] = 10 << 30
    refused("me/heads", backbone, r"heads.safetensors of [\d,]+ to [\d,]+ bytes .* found 10,737,418,240")
    hub.claimed = {"config.json": 10 << 30}
    refused("me/heads", backbone, "config.json of 0 to 1,048,576 bytes .* found 10,737,418,240; it was not")
    assert hub.count("GET", "/cdn/") == 0


def altered(change):
    def alter(content):
        tensors = load(content)
        change(tensors)
        return save(tensors)

    return alter


def config(**changes):
    def alter(content):
        whole = json.loads(content)
        for name, value in changes.items():
            group, _, key = name.partition("__")
            whole[group][key] = value
        return json.dumps(whole).encode()

    return alter


@pytest.mark.parametrize(
    ("file", "alter", "message"),
    [
        (
            "heads.safetensors",
            altered(lambda t: t.update({NAME: torch.zeros(32, 33)})),
            r"found F32 \[32, 33\] in",
        ),
        (
            "heads.safetensors",
            altered(lambda t: t.update({NAME: t[NAME].half()})),
            r"found F16 \[32, 32\] in place of F32",
        ),
        (
            "heads.safetensors",
            altered(lambda t: t.update({"x": t.pop(NAME)})),
            r"found nothing in place of F32 \[32, 32\] at",
        ),
        (
            "heads.safetensors",
            lambda content: content[:-1],
            "found Error .* not fully covered",
        ),
        ("heads.safetensors", lambda content: content[:-1] + b"\x01", "found altered bytes"),
        (
            "heads.safetensors",
            lambda content: (10 << 30).to_bytes(8, "little") + content[8:],
            "header too large",
        ),
        ("config.json", config(backbone__fingerprint="0" * 64), "found fingerprint"),
        (
            "config.json",
            config(backbone__source="../../x"),
            "backbone.source = .* in place of organisation/rep",
        ),
        ("config.json", config(backbone__name="../x"), r'backbone.name = "../x" in place of a plain name'),
        ("config.json", config(heads__width=10**12), "heads.width = 1000000000000 in place of 1 to 1000000"),
        ("config.json", lambda content: b"\x80\x04pickle", "found text that is not JSON"),
    ],
)
def test_a_damaged_or_hostile_bundle_is_refused(hub, files, backbone, file, alter, message):
    files[file] = alter(files[file])
    hub.seed("me/heads", files)
    refused("me/heads", backbone, message)


def test_a_benchmark_takes_names_among_folders(hub, files, tmp_path, backbone):
    hub.seed("me/heads", files)
    save_bundle(tmp_path / "mtp", random_heads(backbone, "mtp"), backbone)
    methods = {"ar": "ar", "fast": "ssd", "rival": "mtp"}
    bundles = find_bundles(["outputs/no/such/heads", "me/heads", str(tmp_path / "mtp")], methods)
    assert load_bundles(bundles, backbone).keys() == {"ssd", "mtp"}
    asked = len(hub.requests)
    assert find_bundles(["me/heads"], {"ar": "ar"}) == {}
    assert len(hub.requests) == asked, "nothing is downloaded for decoders without heads"
    with pytest.raises(RowcastError, match="a bundle in the folder me/typo, which is not there"):
        find_bundles(["me/heads", "me/typo"], methods)


def test_training_goes_on_from_heads_by_name(hub, files, offline, tmp_path):
    hub.seed("me/heads", files)
    words = ["heads=me/heads", f"folder={tmp_path / 'run'}"]
    found = expand(words)
    assert {"start_from=me/heads", "heads=ssd", "heads.horizontal=3", "heads.vertical=2"} <= set(found)
    offline()
    assert expand(words) == found
    sha256 = json.loads(files["config.json"])["weights_sha256"]
    origin = origin_of("me/heads", tmp_path / "run", "auto")
    assert origin.record() == {"heads": "me/heads", "weights_sha256": sha256}


def test_a_benchmark_never_writes_to_the_cache(hub, files):
    hub.seed("me/heads", files)
    with pytest.raises(RowcastError, match=r"expected a bundle's own folder for attach.*copy that folder"):
        require_folders({"ssd": resolve("me/heads")})
