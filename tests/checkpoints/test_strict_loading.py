"""Whatever is wrong with a bundle is named before any weight is allocated."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from backbones.errors import RowcastError
from checkpoints import load_heads
from checkpoints.config import read_config
from checkpoints.weights import sha256_of
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, save

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone()


@pytest.fixture(scope="module")
def saved(tmp_path_factory, backbone):
    folder = tmp_path_factory.mktemp("saved")
    save(folder, random_bank(backbone), backbone, metrics={"loss": 1.0})
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "bundle")


def refused(folder, backbone, message):
    with pytest.raises(RowcastError, match=message) as caught:
        load_heads(folder, backbone)
    text = str(caught.value)
    assert "\n" not in text
    assert re.search(r"expected .*, found .*; \w+", text)


def edit(folder, **changes):
    """Rewrites fields of config.json, given as dotted__names."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        place = config
        for parent in parents:
            place = place[parent]
        place[last] = value
    path.write_text(json.dumps(config))


def edit_weights(folder, change):
    """Rewrites the tensors and signs them, so that the digest is not what catches it."""
    path = folder / "heads.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    edit(folder, weights_sha256=sha256_of(path))


def test_an_untouched_copy_loads(folder, backbone):
    assert load_heads(folder, backbone).vertical == 2
    assert read_config(folder).metrics == {"loss": 1.0}


def test_missing_folder_and_missing_config(tmp_path, folder, backbone):
    refused(tmp_path / "nowhere", backbone, r"nowhere, found no config.json; train one with")
    refused(folder / "README.md", backbone, "found no config.json")
    (folder / "config.json").unlink()
    refused(folder, backbone, "found no config.json")


@pytest.mark.parametrize("text", ["", "{", "\xff", '{"schema_version": NaN}', "[" * 100_000])
def test_unreadable_json(folder, backbone, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    refused(folder, backbone, "found text that is not JSON")


def test_config_that_is_a_folder(folder, backbone):
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    refused(folder, backbone, "expected to read .*config.json, found Is a directory")


@pytest.mark.parametrize("version", [3, None, "1", []])
def test_unknown_schema_version(folder, backbone, version):
    edit(folder, schema_version=version)
    refused(folder, backbone, r"in schema version 2, found .*; use the Rowcast version")


def test_a_bundle_of_the_first_schema_loads(folder, saved, backbone):
    """It knew one kind of heads, and did not name it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["heads"]["name"]
    config["schema_version"] = 1
    path.write_text(json.dumps(config))
    loaded, expected = load_heads(folder, backbone), load_heads(saved, backbone)
    assert loaded.facts == expected.facts
    assert all(weight.equal(expected.state_dict()[name]) for name, weight in loaded.state_dict().items())
    edit(folder, schema_version=2)
    refused(folder, backbone, "heads.name = null in place of ssd or mtp or eagle")
    edit(folder, schema_version=1, heads=[])
    refused(folder, backbone, r"heads.name = \[\] in place of|in schema version 2, found 1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "surprise"),
        ({"heads__horizontal": 3.0}, r"heads.horizontal = 3.0 in place of int"),
        ({"heads__horizontal": True}, r"heads.horizontal = true in place of int"),
        ({"sampling__top_k": "all"}, r'sampling.top_k = "all" in place of int or null'),
        ({"backbone": []}, r"found \[\] in place of keys codes, .* at backbone"),
        ({"metrics": None}, "metrics = null in place of dict"),
        ({"heads__name": "medusa"}, 'heads.name = "medusa" in place of ssd or mtp or eagle'),
        (
            {"heads__name": "mtp"},
            r"found keys columns, correction, .*, law_weight, name, .* in place of .* heads",
        ),
        ({"heads__name": ["ssd"]}, r'heads.name = \["ssd"\] in place of'),
        ({"heads__ahead": 1}, r"found keys ahead, dtype, name, width in place of .* at heads"),
    ],
)
def test_keys_and_types_of_the_config(folder, backbone, change, message):
    edit(folder, **change)
    refused(folder, backbone, message)


def test_missing_key_of_the_config(folder, backbone):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["sampling"]["guidance"]
    path.write_text(json.dumps(config))
    refused(folder, backbone, "in place of keys guidance, .* at sampling")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (tiny_backbone(seed=1), r"\(fingerprint '\w+'\), found fingerprint '\w+'; load model='tiny'"),
        (tiny_backbone(cols=5), r"\(cols '4', fingerprint '\w+'\), found cols '5'"),
        (tiny_backbone(codes=12), "codes '11', fingerprint"),
    ],
    ids=["weights", "grid", "codes"],
)
def test_another_backbone(folder, other, message):
    refused(folder, other, message)


def test_another_width_dtype_or_norm_side(folder, backbone):
    for field, value, shown in [
        ("backbone__width", 4096, "width '4096'"),
        ("heads__width", 64, "head width '64'"),
        ("backbone__dtype", "bfloat16", "dtype 'bfloat16'.*model.dtype='bfloat16'"),
        ("backbone__states", "post-norm", "states 'post-norm'"),
        ("backbone__name", "janus", "name 'janus'"),
    ]:
        before = (folder / "config.json").read_text()
        edit(folder, **{field: value})
        refused(folder, backbone, shown)
        (folder / "config.json").write_text(before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads__horizontal": 2}, r"found F32 \[32, 64\] in place of nothing at 'predictors.h\+3|h\+3"),
        (
            {"heads__vertical": 3},
            r"found nothing in place of F32 \[32, 32\] at 'predictors.v\+3.down.weight'",
        ),
        ({"heads__hidden": 2.0}, r"found F32 \[32, 32\] in place of F32 \[32, 64\]"),
        ({"heads__dtype": "bfloat16"}, r"found F32 .* in place of BF16"),
        ({"heads__dtype": "load"}, "found dtype 'load' in the config"),
        ({"heads__horizontal": 10**9}, r"heads.horizontal = 1000000000 in place of 1 to 256"),
        ({"heads__horizontal": 10**400}, r"heads.horizontal = 1000.* in place of 1 to 256"),
        ({"heads__hidden": 1e308}, r"heads.hidden = 1e\+308 in place of a finite number above 0, at most 64"),
        ({"heads__hidden": 10**400}, r"heads.hidden = 1000.* in place of float"),
        ({"heads__horizontal": -1, "heads__vertical": 2}, "heads.horizontal = -1 in place of 1 to 256"),
    ],
)
def test_config_that_promises_other_tensors(folder, backbone, change, message):
    edit(folder, **change)
    refused(folder, backbone, message)


def test_tensors_that_the_config_does_not_promise(folder, saved, backbone):
    name = "predictors.h+1.up.weight"
    for change, message in [
        (
            lambda tensors: tensors.pop(name),
            r"found nothing in place of F32 \[32, 32\] at 'predictors.h\+1.up",
        ),
        (
            lambda tensors: tensors.update(more=torch.zeros(1)),
            r"found F32 \[1\] in place of nothing at 'more'",
        ),
        (lambda tensors: tensors.update({name: torch.zeros(32, 31)}), r"found F32 \[32, 31\]"),
        (lambda tensors: tensors.update({name: tensors[name].double()}), r"found F64 \[32, 32\]"),
    ]:
        edit_weights(folder, change)
        refused(folder, backbone, message)
        shutil.copytree(saved, folder, dirs_exist_ok=True)


def test_truncated_altered_and_missing_weights(folder, saved, backbone):
    path = folder / "heads.safetensors"
    whole = path.read_bytes()
    for size in (0, 7, 300, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(folder, backbone, "copy the bundle again")
    path.write_bytes(whole + b"x")
    refused(folder, backbone, "copy the bundle again")
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(folder, backbone, "found altered bytes; copy the bundle again")
    path.unlink()
    refused(folder, backbone, "found No such file")


def test_a_pickle_is_not_opened(folder, backbone):
    torch.save({"x": torch.zeros(1)}, folder / "heads.safetensors")
    refused(folder, backbone, "copy the bundle again")


def test_weights_of_another_bundle(folder, tmp_path, backbone):
    save(tmp_path / "other", random_bank(backbone, seed=9), backbone)
    shutil.copy(tmp_path / "other" / "heads.safetensors", folder)
    refused(folder, backbone, "found altered bytes")
