"""The YAML tree and the schema say the same, and every mistake has its sentence."""

import re
from dataclasses import fields

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from backbones.errors import RowcastError
from conf.check import FOLDER, choices, option_names, typed
from conf.decoders import decoder_options
from conf.schema import DataJob, DecodingJob, EvalJob, TrainJob
from decoding.methods import build_method
from decoding.options import HEADS as DRAFTED_BY
from decoding.options import OPTIONS
from heads.kinds import build_heads
from heads.options import HEADS, parse_heads

pytestmark = pytest.mark.unit

JOBS = {"train": TrainJob, "data": DataJob, "decoding": DecodingJob, "eval": EvalJob}
MANDATORY = {"decoding": {"prompt"}}


def composed(name, *overrides):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose(name, list(overrides))


def keys(config, prefix=""):
    for key in config:
        yield f"{prefix}{key}"
        value = None if OmegaConf.is_missing(config, key) else config[key]
        if isinstance(value, DictConfig):
            yield from keys(value, f"{prefix}{key}.")


@pytest.mark.parametrize("name", JOBS)
def test_yaml_and_schema_have_the_same_options(name):
    config = composed(name)
    wanted = set(option_names(JOBS[name]))
    for group, kinds in (("decoder", OPTIONS), ("heads", HEADS)):
        if f"{group}.name" in wanted:
            others = {f"{group}.{option}" for kind in kinds.values() for option in option_names(kind)}
            wanted -= others - {f"{group}.{option}" for option in option_names(kinds["ssd"])}
    # Of a test of drafts the default, which has no options.
    wanted -= {option for option in wanted if re.match(r"decoder\.rule\.(?!name)", option)}
    assert set(keys(config)) == wanted


@pytest.mark.parametrize("kind", choices("train/heads"))
def test_kinds_of_heads_have_their_options_folder_and_decoders(kind):
    job = typed(composed("train", f"train/heads={kind}"), TrainJob)
    assert job.heads.keys() == {"name", *option_names(HEADS[kind])}
    assert parse_heads(job.heads) == (kind, HEADS[kind]()), "YAML and schema have the same defaults"
    assert job.folder == f"outputs/pocket/{'train' if kind == 'ssd' else kind}"
    assert job.rollouts.folder == "outputs/pocket/rollouts", "all kinds learn from the same images"
    for name in job.benchmark.decoders:
        options = decoder_options(name)
        build_method(options.pop("name"), options, heads(kind))


def heads(kind):
    return build_heads(kind, 8, HEADS[kind]())


@pytest.mark.parametrize("name", JOBS)
def test_only_what_nobody_can_guess_is_mandatory(name):
    assert OmegaConf.missing_keys(composed(name)) == MANDATORY.get(name, set())


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_option_is_commented(path):
    text = path.read_text().partition("\ndefaults:")
    if path.stem == "process":
        return
    for line in (text[2] or text[0]).splitlines():
        option = re.match(r" *(\w+):.*", line)
        if option and option[1] not in (
            "name",
            "seed",
            "project",
            "prompts",
            *JOBS,
            "heads",
            "trainer",
            "wandb",
            "benchmark",
            "plan",
            "rollouts",
        ):
            assert "#" in line, f"{path.name}: {line}"


@pytest.mark.parametrize("name", choices("decoder"))
def test_decoder_options_build_their_method(name):
    options = decoder_options(name)
    method = build_method(
        options["name"], {key: options[key] for key in options if key != "name"}, needed(options)
    )
    title = (FOLDER / "decoder" / f"{name}.yaml").read_text().partition("\n")[0]
    said = re.findall(r"\b(lossless|lossy)\b", title.lower())
    assert said == ["lossless" if method.lossless else "lossy"]


def needed(options):
    """The heads that a decoder drafts with."""
    kind = DRAFTED_BY.get(options["name"])
    return None if kind is None else heads(kind)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("name", DRAFTED_BY)
def test_heads_of_another_kind_are_refused(name, kind):
    if kind != DRAFTED_BY[name]:
        with pytest.raises(
            RowcastError, match=f"found {kind} heads: .*python -m train heads={DRAFTED_BY[name]}"
        ):
            build_method(name, {}, heads(kind))


def test_typed_resolves_and_converts():
    job = typed(composed("train", "trainer.learning_rate=1", "resume=false"), TrainJob)
    assert job.folder == "outputs/pocket/train"
    assert job.trainer.learning_rate == 1.0
    assert job.resume == "false"
    assert {field.name for field in fields(job)} == {field.name for field in fields(TrainJob)}


MISTAKES = {
    ("train", "trainer.devices=two"): "option trainer.devices: expected int, found 'two'",
    ("train", "+trainer.devces=2"): "unknown option trainer.devces: did you mean trainer.devices?",
    ("train", "+devices=2"): "unknown option devices: did you mean",
    ("train", "trainer.steps=0"): "option trainer.steps: expected 1 to 1000000000, found 0",
    ("train", "trainer.clip=0"): "option trainer.clip: expected a finite number above 0, found 0",
    ("train", "trainer.seed=9223372036854775808"): "option trainer.seed: expected 0 to 2**63 - 1, found",
    (
        "train",
        "heads.hidden=inf",
    ): "option heads.hidden: expected a finite number above 0, at most 64, found inf",
    ("train", "trainer.learning_rate=inf"): "option trainer.learning_rate: expected a finite number above 0",
    (
        "train",
        "trainer.weight_decay=nan",
    ): "option trainer.weight_decay: expected a finite number of at least 0",
    ("train", "sampling.guidance=inf"): "option sampling.guidance: expected 0 to 1000, found inf",
    ("train", "sampling.temperature=1e-40"): "option sampling.temperature: expected 0 (greedy), or 0.001 to",
    (
        "train",
        "rollouts.images=3000000000",
    ): "option rollouts.images: expected 1 to 1000000, found 3000000000",
    ("train", "trainer.strategy=fsdp"): "expected one of auto, ddp, deepspeed, fsdp2, found 'fsdp'",
    (
        "train",
        "sampling.top_p=1.5",
    ): "option sampling.top_p: expected a finite number above 0, at most 1, found 1.5",
    ("train", "heads=3"): "option heads: expected a group of options, found 3",
    ("train", "benchmark.decoders=[1]"): "option benchmark.decoders: expected all, or a list of names",
    ("train", "heads.name=medusa"): "unknown heads.name 'medusa': expected one of ssd, mtp, eagle",
    ("decoding", "heads=null"): 'option prompt is missing: add prompt="a red sneaker on blue"',
    (
        "decoding",
        "decoder.first_row.block=x",
    ): "option decoder.first_row.block: expected int or null, found 'x'",
    ("decoding", "decoder.rounds=-1"): "option decoder.rounds: expected 0 to 1000, found -1",
    ("decoding", "+decoder.first_row.blok=1"): "did you mean decoder.first_row.block?",
    ("decoding", "decoder.name=sdd"): "unknown decoder.name 'sdd': expected one of ar, ssd",
}


@pytest.mark.parametrize(("name", "override"), MISTAKES)
def test_mistakes_are_named(name, override):
    with pytest.raises(RowcastError, match=re.escape(MISTAKES[name, override])):
        typed(composed(name, override), JOBS[name])


def test_unknown_decoder_lists_the_known_ones():
    assert {"ar", "ssd", "ssd_r0", "ssd_r1"} <= set(choices("decoder"))
    with pytest.raises(RowcastError, match=f"choose decoder= one of {', '.join(choices('decoder'))}"):
        decoder_options("sdd")
