"""The check of a copy: right ones pass, and a planted fault fails the proof that is about it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from backbones import check_job, proof
from backbones.check_job import check_copy
from backbones.errors import RowcastError
from backbones.pocket.backbone import WEIGHTS
from backbones.report import Report
from conf.schema import Model
from decoding.warp import Warp
from tests.backbones import broken
from tests.backbones.checkpoints.families import SUBJECTS

pytestmark = pytest.mark.integration

NAMES = [
    "load",
    "facts",
    "words",
    "greedy tokens",
    "sampling",
    "guidance",
    "pre-norm states",
    "block against step",
    "batch against single",
    "rollback",
    "trained",
    "pixels",
    "coherent",
    "fingerprint",
]
DEFAULTS = dict.fromkeys(Model.__dataclass_fields__) | {
    "device": "cpu",
    "dtype": "float32",
    "weights": "published",
}


@pytest.fixture(autouse=True)
def few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows of the larger grids are enough here too."""
    monkeypatch.setattr(proof, "LEAST", 1)


def verdicts(name: str, prompt: str | None = None, **options) -> dict[str, str]:
    """The verdict of every proof."""
    report = Report()
    model = DEFAULTS | {"name": name} | options
    check_copy(report, model, prompt=prompt, seed=0, warp=Warp, paint=None)
    return {line.name: line.verdict for line in report.proofs}


def failed(name: str, **options) -> set[str]:
    return {line for line, verdict in verdicts(name, **options).items() if verdict == "FAILED"}


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch):
    """Plants a mistake into every backbone that is loaded."""

    def plant(mistake) -> None:
        load = check_job.load_backbone

        def loaded(*words, **options):
            backbone = load(*words, **options)
            mistake(backbone)
            return backbone

        monkeypatch.setattr(check_job, "load_backbone", loaded)

    return plant


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return {name: subject.write(tmp_path_factory.mktemp(name)) for name, subject in SUBJECTS.items()}


@pytest.fixture
def janus(options, tmp_path: Path) -> Path:
    """A copy of the tiny Janus to damage."""
    return Path(shutil.copytree(options["janus"]["path"], tmp_path / "janus"))


@pytest.fixture
def pocket(tmp_path: Path) -> Path:
    """A copy of the pocket model, which is trained, to damage."""
    return Path(shutil.copytree(WEIGHTS, tmp_path / "pocket"))


def edit(folder: Path, change) -> None:
    """Changes the tensors of a checkpoint."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_the_pocket_model_is_right_and_looks_trained():
    found = verdicts("pocket")
    assert list(found) == NAMES
    assert {name for name, verdict in found.items() if verdict != "ok"} == set()


@pytest.mark.parametrize("name", ["lumina", "anole", "janus", "emu3"])
def test_tiny_checkpoints_pass_but_for_their_random_pixels(name, options):
    found = verdicts(name, **options[name])
    assert list(found) == NAMES
    assert {name for name, verdict in found.items() if verdict == "FAILED"} <= {"coherent"}


@pytest.mark.parametrize("name", ["llamagen_c2i", "llamagen_t2i"])
def test_tokens_are_proved_without_pixels(name, options):
    found = verdicts(name, **options[name] | {"pixels": None})
    assert "FAILED" not in found.values()
    assert found["pixels"] == "untested"
    assert "coherent" not in found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_is_no_fault(dtype, options):
    assert failed("janus", **options["janus"] | {"dtype": dtype}) <= {"coherent"}


def test_random_weights_are_said_to_look_untrained(capsys):
    found = verdicts("pocket", weights="random")
    assert "FAILED" not in found.values()
    assert found["trained"] == found["coherent"] == "untested"
    assert "looks untrained, as random weights do" in capsys.readouterr().out


def shift_codes(backbone) -> None:
    """The slice of the output layer begins one row too late."""
    head = backbone._image_head
    backbone._image_head = lambda hidden: head(hidden).roll(1, -1)


def other_row_end(backbone) -> None:
    backbone._table[-1] = backbone._table[0]


def forget_gains(backbone) -> None:
    """The final norm without its weights."""
    backbone._norm.weight.fill_(1)


def other_pads(backbone) -> None:
    """The unconditional prompt in another token than the model was trained with."""
    unconditional_ids = backbone.unconditional_ids
    backbone.unconditional_ids = lambda ids: [ids[0] if i != ids[-1] else i for i in unconditional_ids(ids)]


def other_vq(backbone) -> None:
    from backbones.pocket.architecture import untrained

    backbone.vq = untrained(1).model.vqmodel.eval()


def swap_rows(backbone) -> None:
    """The codes of the VQ in another order than those of the trunk."""
    weight = backbone.vq.quantize.embedding.weight
    weight.data = weight.data.flip(0)


FAULTS = [
    ("pocket", shift_codes, "coherent"),
    ("pocket", other_vq, "coherent"),
    ("pocket", swap_rows, "coherent"),
    ("janus", shift_codes, "greedy tokens"),
    ("janus", other_pads, "greedy tokens"),
    ("emu3", shift_codes, "greedy tokens"),
    ("emu3", other_row_end, "greedy tokens"),
    ("emu3", forget_gains, "greedy tokens"),
    ("emu3", broken.early_row_end, "greedy tokens"),
    ("emu3", broken.late_entry, "greedy tokens"),
    ("lumina", broken.unconditional_first, "guidance"),
    ("anole", broken.unconditional_rows_with_words, "guidance"),
    ("lumina", broken.post_norm_harvest, "pre-norm states"),
    ("lumina", broken.states_one_late, "pre-norm states"),
    ("lumina", broken.attended_padding, "batch against single"),
    ("lumina", broken.image_positions_count_padding, "batch against single"),
    ("anole", broken.keeps_everything, "rollback"),
    ("anole", broken.columns_for_rows, "pixels"),
]


@pytest.mark.parametrize(
    ("name", "mistake", "proof"), FAULTS, ids=[f"{n}-{m.__name__}" for n, m, _ in FAULTS]
)
def test_a_mistake_fails_its_proof(name, mistake, proof, options, breaking):
    breaking(mistake)
    assert proof in failed(name, **options[name])


def test_weights_that_learned_nothing_look_untrained(pocket, capsys):
    generator = torch.Generator().manual_seed(0)

    def shuffle(tensors):
        for name, weight in tensors.items():
            if name.startswith("model.generation_head"):
                tensors[name] = weight * 0.01 * torch.randn(weight.shape, generator=generator)

    edit(pocket, shuffle)
    assert "trained" in failed("pocket", path=str(pocket))
    assert "looks untrained" in capsys.readouterr().out


def test_a_silent_decoder_has_constant_pixels(janus):
    edit(janus, lambda tensors: tensors["model.vqmodel.decoder.conv_out.weight"].zero_())
    assert failed("janus", path=str(janus)) >= {"pixels"}


def test_a_weight_that_is_no_number_is_found(janus):
    edit(janus, lambda tensors: tensors["model.language_model.layers.0.mlp.up_proj.weight"].fill_(torch.nan))
    assert "sampling" in failed("janus", path=str(janus))


def test_a_tokenizer_that_reads_other_words_is_found(janus):
    file = janus / "tokenizer.json"
    content = json.loads(file.read_text())
    content["normalizer"] = {"type": "Replace", "pattern": {"String": "fox"}, "content": "dog"}
    file.write_text(json.dumps(content))
    assert failed("janus", path=str(janus)) >= {"words"}


def test_what_the_user_can_put_right_is_refused_in_one_line(janus, options):
    weights = janus / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(RowcastError, match="expected loadable weights"):
        verdicts("janus", path=str(janus))
    file = Path(shutil.copytree(options["janus"]["path"], janus / "other")) / "tokenizer.json"
    file.write_text(file.read_text().replace("<begin_of_image>", "<begin_of_picture>"))
    with pytest.raises(RowcastError, match="<begin_of_image>"):
        verdicts("janus", path=str(file.parent))
    for prompt in ("", "a red dragon on blue"):
        with pytest.raises(RowcastError, match="expected"):
            verdicts("pocket", prompt=prompt)
    with pytest.raises(RowcastError, match="found meta"):
        verdicts("janus", weights="random", device="meta")
