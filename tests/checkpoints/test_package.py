"""What would be uploaded: checked, with a card that tells what was measured, and without secrets."""

import json

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file

from backbones.errors import RowcastError
from checkpoints.config import read_config
from checkpoints.custom import CODE_FILE
from checkpoints.measured import read_measured
from checkpoints.package import pack, write_package
from checkpoints.places import HubPlace
from checkpoints.weights import sha256_of
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, save
from tests.checkpoints.hub_state import TOKEN
from tests.eval.tiny import tiny_bank

pytestmark = pytest.mark.integration

PLACE = HubPlace("me/heads")


def packed(folder, base_model=None, licence=lambda repository: None, **options):
    return pack(folder, PLACE, base_model=base_model, licence=licence, **options)


def card_of(package):
    return package.texts["README.md"].decode()


def refused(folder, message, **options):
    with pytest.raises(RowcastError, match=message) as caught:
        packed(folder, **options)
    assert "\n" not in str(caught.value)


def test_the_card_tells_what_was_measured(bundle):
    card, config = card_of(packed(bundle)), read_config(bundle)
    results = json.loads((bundle / "results.json").read_text())
    rows = [line.split(" | ") for line in card.splitlines() if line.startswith("| ")]
    for decoder in results["decoders"]:
        law = "lossless" if decoder["lossless"] else "lossy"
        name = decoder["name"].replace("_", r"\_")
        row = next(row for row in rows if row[0] == f"| {name}")
        assert row[1:3] == [law, f"{decoder['forwards']:.4g}"]
        delta = decoder["quality"]["nll_delta"]["value"]
        assert "baseline" in row[-1] if decoder["name"] == "ar" else f"{delta:+.2f}" in row[-1]
    accepted, examined = next(d for d in results["decoders"] if d["name"] == "ssd")["acceptance"]["v+1"]
    assert f"{100 * accepted / examined:.0f} %" in card.partition("## Acceptance")[2]
    for text in (
        "second seed | control",
        results["environment"]["torch"],
        "3 images a decoder",
        "over 6 images",
    ):
        assert text in card
    assert "Intervals of fewer than 8 images are too narrow" in card
    assert "heads=me/heads decoder=ssd_exact" in card
    assert f"`{config.backbone.fingerprint}`" in card
    assert "path/to" not in card


def test_the_front_matter_names_the_base_model(bundle):
    assert "base_model" not in card_of(packed(bundle))
    package = packed(bundle, base_model="them/base", licence={"them/base": "apache-2.0"}.get)
    front = yaml.safe_load(card_of(package).split("---")[1])
    assert (front["base_model"], front["base_model_relation"]) == ("them/base", "adapter")
    assert front["library_name"] == "rowcast"
    assert json.loads(package.texts["config.json"])["backbone"]["source"] == "them/base"
    assert "Its licence, by its page on the hub: apache-2.0" in card_of(package)
    assert "model.path=them/base model.dtype=float32" in card_of(package)
    assert "load_backbone('tiny', path='them/base', dtype='float32')" in card_of(package)
    config = json.loads((bundle / "config.json").read_text())
    config["backbone"]["source"] = "them/base/a.pt@0123abc"
    (bundle / "config.json").write_text(json.dumps(config))
    known = card_of(packed(bundle, base_model="them/base"))
    assert "`a.pt` of [them/base](https://huggingface.co/them/base) at revision `0123abc`" in known
    assert "model.path=them/base/a.pt model.revision=0123abc" in known
    refused(bundle, "expected base_model=them/base, which .* found them/other", base_model="them/other")
    refused(bundle, "organisation/name for base_model, found '../x'", base_model="../x")


def test_a_picture_beside_the_heads_is_shown(bundle):
    assert "![" not in card_of(packed(bundle))
    Image.new("RGB", (8, 8)).save(bundle / "samples.png")
    package = packed(bundle)
    assert "(samples.png)" in card_of(package)
    assert package.texts["samples.png"] == (bundle / "samples.png").read_bytes()
    (bundle / "samples.png").write_text("<svg onload=alert(1)>")
    refused(bundle, "expected a PNG of at most .* in .*samples.png")
    save(bundle, random_bank(tiny_backbone(), seed=5), tiny_backbone())
    assert not (bundle / "samples.png").exists(), "it shows other heads"


def test_a_dry_run_writes_the_very_files_and_no_others(bundle, tmp_path):
    for name in ("notes.txt", "heads.pt"):
        (bundle / name).write_text("x")
    package = packed(bundle)
    assert package.left_out == ["heads.pt", "notes.txt"]
    for _ in range(2):
        write_package(package, tmp_path / "out")
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert written == {**package.texts, "heads.safetensors": (bundle / "heads.safetensors").read_bytes()}
    assert {name: len(content) for name, content in written.items()} == package.sizes
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(RowcastError, match=r"empty folder or an earlier dry run in .* found mine.txt"):
        write_package(package, tmp_path / "out")
    with pytest.raises(RowcastError, match="apart from the bundle"):
        write_package(package, bundle)
    assert read_measured(bundle, read_config(bundle)) is not None


def test_code_goes_along_only_where_asked_and_where_it_can_paint(bundle):
    assert CODE_FILE not in packed(bundle).texts
    assert "Without Rowcast" not in card_of(packed(bundle))
    refused(
        bundle,
        "expected ssd heads for pocket, .*custom_generate=true, found ssd heads for tiny",
        custom_generate=True,
    )
    config = json.loads((bundle / "config.json").read_text())
    config["backbone"] |= {"name": "janus_1b", "source": "them/base@0123abc"}
    (bundle / "config.json").write_text(json.dumps(config))
    (bundle / CODE_FILE).parent.mkdir()
    (bundle / CODE_FILE).write_text("boom")
    assert packed(bundle).left_out == [CODE_FILE]
    package = packed(bundle, custom_generate=True)
    assert package.left_out == []
    assert b"boom" not in package.texts[CODE_FILE]
    card = card_of(package)
    assert "custom_generate" in yaml.safe_load(card.split("---")[1])["tags"]
    assert "from_pretrained('them/base', revision='0123abc', dtype='float32')" in card


def test_weights_that_nobody_could_use_are_refused(bundle):
    path, name = bundle / "heads.safetensors", "predictors.h+1.up.weight"
    tensors = load_file(path)

    def sign(metadata=None):
        save_file(tensors, path, metadata=metadata)
        config = json.loads((bundle / "config.json").read_text())
        (bundle / "config.json").write_text(json.dumps({**config, "weights_sha256": sha256_of(path)}))
        (bundle / "results.json").unlink(missing_ok=True)

    sign({"format": "pt", "note": TOKEN})
    refused(bundle, r"notes beside them \(note\)")
    tensors[name] = torch.full_like(tensors[name], float("inf"))
    sign()
    refused(bundle, "expected finite weights in .* found others in 'predictors.h\\+1.up.weight'; train")


def test_a_token_is_never_published(bundle, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "s3cret-of-an-odd-form")
    path = bundle / "results.json"
    whole = json.loads(path.read_text())
    for token in ("s3cret-of-an-odd-form", TOKEN):
        path.write_text(json.dumps({**whole, "command": f"python -m eval HF_TOKEN={token}"}))
        refused(bundle, "expected no token of the hub in .*results.json, found one; remove it")
    path.unlink()
    save(bundle, tiny_bank(), tiny_backbone(), training={"note": TOKEN})
    refused(bundle, "expected no token of the hub in .*, found one")
