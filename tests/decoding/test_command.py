"""`python -m decoding` in processes of its own, on a pocket model with random weights."""

from pathlib import Path

import pytest
from PIL import Image

from tests.process import run_module

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def command(*words, cwd):
    return run_module("decoding", *words, cwd=cwd)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from backbones.pocket.architecture import text_tokenizer, untrained

    folder = tmp_path_factory.mktemp("pocket")
    untrained(0).save_pretrained(folder)
    text_tokenizer().save_pretrained(folder)
    return f"model.path={folder}"


def test_paints_a_sheet_of_the_prompts_of_a_file(model, tmp_path):
    (tmp_path / "prompts.txt").write_text("a red sneaker on blue\na green coat on white\n")
    done = command(
        model, "decoder=ar", "prompt=prompts.txt", "num_images=2", "out=made/sheet.png", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "4 x ar (lossless): 256 forwards an image" in done.stdout
    assert done.stdout.splitlines()[-1] == "made/sheet.png"
    assert Image.open(tmp_path / "made" / "sheet.png").size == (520, 520)


def test_missing_heads_are_one_line_before_anything_is_loaded(tmp_path):
    done = command("model.path=absent", "prompt=a red sneaker on blue", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "decoding: expected draft heads for decoder ssd, found none: pass heads=<bundle folder> of "
        "`python -m train heads=ssd`\n"
    )
