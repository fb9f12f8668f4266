"""The code in a bundle, run by transformers' own mechanism: it paints as `decoder=ssd` does."""

import json
import re
import shutil

import pytest
import torch
from PIL import Image
from transformers import dynamic_module_utils, set_seed

from checkpoints.custom_generate.generate import couple
from checkpoints.package import pack
from checkpoints.places import HubPlace
from checkpoints.publish import publish
from tests.checkpoints.hub_state import TOKEN
from tests.checkpoints.plain import PROMPTS, plain

pytestmark = pytest.mark.integration

GREEDY = {"sampling": {"temperature": 0}}


@pytest.fixture(autouse=True)
def modules(monkeypatch, tmp_path):
    """Transformers copies code to where it runs it from."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    families = {}

    def make(name):
        if name not in families:
            families[name] = plain(name, tmp_path_factory.mktemp(name))
        return families[name]

    return make


@pytest.fixture
def copy(made, tmp_path):
    """A bundle of Janus to spoil."""
    return shutil.copytree(made("janus").folder, tmp_path / "copy")


@pytest.mark.parametrize("family", PROMPTS)
def test_greedy_images_are_those_of_rowcast(made, family):
    subject = made(family)
    painted = subject.paint(**GREEDY)
    assert torch.equal(painted, subject.by_rowcast(temperature=0.0))
    assert len(painted.unique()) > 4, "an image of one code would prove little"
    unguided = subject.paint(sampling={"temperature": 0, "guidance": 1}, negative_prompt_ids=None)
    assert torch.equal(unguided, subject.by_rowcast(temperature=0.0, guidance=1.0))
    assert not torch.equal(unguided, painted)


@pytest.mark.parametrize("family", PROMPTS)
def test_the_card_shows_code_that_paints(made, family, tmp_path, monkeypatch):
    subject = made(family)
    card = (subject.folder / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", card.partition("### Without Rowcast")[2], re.DOTALL)[0]
    assert "lossy" in card.partition("### Without Rowcast")[2].partition("```")[0]
    for place, ours in [
        ("path/to/the/model", subject.weights),
        ("backbones/pocket/weights", subject.weights),
    ]:
        code = code.replace(place, str(ours))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code.replace("me/heads", str(subject.folder)), names)
    grid = subject.backbone.grid
    pixels = subject.backbone.decode(subject.codes(names["painted"]).long())
    assert pixels.shape[2] % grid.rows == 0
    assert torch.equal(
        torch.tensor(list(Image.open("image.png").tobytes())), pixels[0].permute(1, 2, 0).flatten()
    )
    prompt = "a red sneaker on blue" if family == "pocket" else "a red cube"
    assert names["prompts"].input_ids[0].tolist() == subject.backbone.prompt_ids(prompt)
    if family == "emu3":
        assert names["avoided"].input_ids[0].tolist() == subject.backbone.unconditional_ids([])


def test_images_are_drawn_from_the_same_law(made):
    subject = made("janus")
    images = 400
    ids = torch.tensor([subject.backbone.prompt_ids("a cat")] * images)
    settings = {"guidance": 1.5, "temperature": 0.8, "top_k": 20, "top_p": 0.95}
    set_seed(0)
    drawn = subject.paint(input_ids=ids, attention_mask=None, sampling=settings)
    set_seed(0)
    again = subject.paint(input_ids=ids, attention_mask=None, sampling=settings)
    assert torch.equal(drawn, again)
    ours, theirs = (shares(codes) for codes in (subject.by_rowcast(["a cat"] * images, **settings), drawn))
    assert worst(ours, theirs, images) < 4.5
    other = shares(subject.by_rowcast(["a cat"] * images, **{**settings, "temperature": 1.2}))
    assert worst(other, theirs, images) > 4.5, "a control that must fail"


def test_a_repaired_draft_follows_the_law_of_the_model():
    p, q = torch.tensor([0.1, 0.6, 0.3, 0.0]), torch.tensor([0.5, 0.1, 0.2, 0.2])
    count = 40_000
    set_seed(0)
    drafts = torch.multinomial(q, count, replacement=True)[None]
    tokens = couple(p.expand(1, count, -1), q.expand(1, count, -1), drafts)
    found = tokens.flatten().bincount(minlength=4) / count
    assert ((found - p).abs() <= 4.5 * (p * (1 - p) / count).sqrt()).all()
    kept = float(torch.minimum(p, q).sum())
    assert abs((tokens == drafts).double().mean() - kept) < 4.5 * (kept * (1 - kept) / count) ** 0.5


def shares(codes):
    """How often each place has each code."""
    return torch.nn.functional.one_hot(codes, 48).double().mean(0)


def worst(one, other, images):
    """The largest difference of two shares in its standard errors; cells too rare to tell are left out."""
    pooled = (one + other) / 2
    error = (2 * pooled * (1 - pooled) / images).sqrt()
    return ((one - other).abs() / error)[pooled * images > 10].max()


def test_the_hub_serves_code_and_heads_under_one_name(made, hub, tmp_path):
    subject = made("janus")
    place = HubPlace("me/heads")
    package = pack(subject.folder, place, base_model=None, licence=lambda _: None, custom_generate=True)
    done = publish(package, place, private=False, token=TOKEN)
    assert (
        hub.files("me/heads")["custom_generate/generate.py"] == package.texts["custom_generate/generate.py"]
    )
    painted = subject.paint("me/heads", revision=done.commit, cache_dir=str(tmp_path / "cache"), **GREEDY)
    assert torch.equal(painted, subject.by_rowcast(temperature=0.0))
    plain_again = pack(subject.folder, place, base_model=None, licence=lambda _: None)
    assert plain_again.left_out == ["custom_generate/generate.py"]
    publish(plain_again, place, private=False, token=TOKEN)
    assert "custom_generate/generate.py" not in hub.files("me/heads")


def test_it_runs_only_with_leave(made):
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        made("janus").paint(trust_remote_code=False)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("janus", {"heads": None}, "expected heads=, found none: pass the place"),
        ("janus", {"temperature": 0.5}, "expected arguments that SSD knows, found temperature: leave"),
        ("janus", {"sampling": {"top": 3}}, "expected sampling of guidance, temperature, .* found .*top"),
        ("emu3", {"max_new_tokens": 50}, "expected arguments that SSD knows, found max_new_tokens"),
        ("emu3", {"image_sizes": [[4, 6]]}, "expected arguments that SSD knows, found image_sizes"),
        ("emu3", {"negative_prompt_ids": None}, "expected negative_prompt_ids, found none"),
        ("emu3", {"input_ids": torch.tensor([[1, 2]])}, "expected prompts that end in one image size"),
        ("emu3", {"negative_prompt_ids": torch.tensor([[1]])}, "expected prompts that end in one image size"),
    ],
)
def test_what_it_would_not_heed_is_refused(made, family, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        made(family).paint(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("group", "key", "value", "message"),
    [
        ("backbone", "dtype", "bfloat16", "expected the heads' model, .*'bfloat16'.* found .*'float32'"),
        ("backbone", "cols", 5, "expected the heads' model, .*'cols': 5.* found .*'cols': 4"),
        ("backbone", "codes", 9, "expected the heads' model, .*'codes': 9"),
        ("heads", "name", "mtp", "expected SSD heads in schema version 2, found .*mtp"),
        ("heads", "horizontal", 4, r"expected predictors.h\+4.mix.weight of .* found None"),
        ("heads", "hidden", 2.0, r"expected predictors.v\+1.gate.weight of \[64, 32\].* found \[32, 32\]"),
    ],
)
def test_heads_of_another_model_are_refused(made, copy, group, key, value, message):
    config = json.loads((copy / "config.json").read_text())
    config[group][key] = value
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        made("janus").paint(copy)


def test_altered_weights_are_refused(made, copy):
    whole = (copy / "heads.safetensors").read_bytes()
    (copy / "heads.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"expected .* with the SHA-256 of config.json, found altered bytes"):
        made("janus").paint(copy)
