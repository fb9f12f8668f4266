"""TensorBoard is used where it is installed, and is never needed."""

from importlib.util import find_spec

import pytest

from backbones.errors import RowcastError
from tests.train.session import job
from train.loggers import log_picture, require_tensorboard, tensorboard_logger

pytestmark = pytest.mark.unit

INSTALLED = find_spec("tensorboard") is not None


@pytest.mark.parametrize(("word", "wanted"), [("true", "true"), ("false", "false"), ("auto", "auto")])
def test_the_words_of_the_option(tmp_path, word, wanted):
    assert job(tmp_path, f"tensorboard={word}").tensorboard == wanted


def test_another_word_is_refused(tmp_path):
    with pytest.raises(RowcastError, match="one of auto, true, false"):
        job(tmp_path, "tensorboard=always")


def test_it_stays_off_when_it_is_not_wanted(tmp_path):
    assert tensorboard_logger("false", tmp_path, None) is None


def test_it_is_asked_for_in_vain_where_it_is_not_installed(tmp_path):
    if INSTALLED:
        require_tensorboard("true")
        return
    assert tensorboard_logger("auto", tmp_path, None) is None
    with pytest.raises(RowcastError, match="pip install tensorboard"):
        require_tensorboard("true")


@pytest.mark.skipif(not INSTALLED, reason="tensorboard is not installed")
def test_figures_and_pictures_arrive(tmp_path):
    from PIL import Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Image.new("RGB", (8, 8)).save(tmp_path / "strip.png")
    logger = tensorboard_logger("auto", tmp_path, None)
    logger.log_metrics({"held_out/accepted": 0.5}, 160)
    log_picture(logger, "validation", tmp_path / "strip.png", 160)
    logger.finalize("success")
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("held_out/accepted")] == [(160, 0.5)]
    assert [event.step for event in events.Images("validation")] == [160]
