"""Checkpoints in transformers' own format: configuration, tokenizer and weights, read whole or refused.

No code from a checkpoint is ever run. What a library says about a broken file becomes one line.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from tokenizers import Tokenizer
from transformers import (
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from backbones.errors import RowcastError
from backbones.shards import INDEX, SINGLE, open_shards, weight_map
from backbones.source import first_line

ConfigT = TypeVar("ConfigT", bound=PreTrainedConfig)
ModelT = TypeVar("ModelT", bound=PreTrainedModel)


def read_config(folder: Path, kind: type[ConfigT], example: str) -> ConfigT:
    """The configuration of a model of one kind.

    Args:
        folder: of the checkpoint.
        kind: what it has to be.
        example: hub id of such a checkpoint, for the message.

    Raises:
        RowcastError: if `config.json` can't be read or describes another kind of model.
    """
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = dict(content).get("model_type")
        if found == kind.model_type:
            return kind.from_pretrained(folder)
    except Exception as error:  # a hand-edited file surfaces as one of a dozen types
        raise _broken(folder, "config.json", error) from error
    raise RowcastError(
        f"expected model type {kind.model_type!r}, found {found!r} in {folder / 'config.json'}: "
        f"pass a checkpoint in transformers' own format, such as {example}"
    )


def read_tokenizer(folder: Path, special: Sequence[str]) -> PreTrainedTokenizerFast:
    """The tokenizer exactly as `tokenizer.json` has it.

    The class that `tokenizer_config.json` names is left aside: some of those rebuild the rules from the
    vocabulary alone, and Janus names one that is wrong for its files.

    Args:
        folder: of the checkpoint.
        special: tokens that `tokenizer.json` has to know. One that stands in `tokenizer_config.json` alone
            would be added under a new id, whose embedding was never trained.

    Raises:
        RowcastError: if a file is missing or broken, or a token is unknown.
    """
    try:
        rules = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    except Exception as error:
        raise _broken(folder, "tokenizer files", error) from error
    missing = [token for token in special if rules.token_to_id(token) is None]
    if missing:
        raise RowcastError(
            f"expected the tokens {' '.join(special)} in {folder / 'tokenizer.json'}, "
            f"found no {' '.join(missing)}: use the tokenizer that was published with the model"
        )
    return tokenizer


def read_model(
    kind: type[ModelT],
    folder: Path,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    *,
    needed: Sequence[str],
    renames: Mapping[str, str] | None = None,
    option: str = "model.path",
) -> ModelT:
    """The model on the CPU.

    Args:
        kind: its class.
        folder: of the checkpoint, in one file or in shards.
        config: its configuration.
        dtype: of its weights, but for modules that `kind` holds in fp32.
        needed: beginnings of the names of weights that have to be in the files, and to which the files
            may add none; the model's other parts are not used.
        renames: beginnings of names (as patterns) that earlier releases saved, and today's. transformers
            knows them for its own classes only, not for classes that derive from them.
        option: where the user wrote `folder`, for messages.

    Raises:
        RowcastError: if files are missing, broken or of another shape, or a needed weight is missing.
    """
    if (folder / INDEX).is_file() and not (folder / SINGLE).is_file():
        weight_map(folder / INDEX, option)  # the library would follow it out of the folder
    try:
        with _quiet():
            model, report = kind.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                key_mapping=dict(renames or {}),
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # below, where they are named
                output_loading_info=True,
            )  # pyright: ignore[reportGeneralTypeIssues]
    except Exception as error:  # a truncated or foreign file surfaces as one of a dozen types
        raise _broken(folder, "weights", error) from error
    wanted = tuple(needed)
    for name in sorted(report["missing_keys"]):
        if name.startswith(wanted):
            raise RowcastError(
                f"expected every weight of the model, found none for {name} in {folder}: "
                "fetch or save the folder again"
            )
    for name in sorted(report["unexpected_keys"]):
        if name.startswith(wanted) and not name.endswith("inv_freq"):
            raise RowcastError(
                f"expected the weights that config.json describes, found {name} in {folder} beside them: "
                "use the config.json that was published with the weights"
            )
    for name, found, expected in sorted(report["mismatched_keys"]):
        if name.startswith(wanted):
            raise RowcastError(
                f"expected {name} of shape {list(expected)} as config.json says, found {list(found)} in "
                f"{folder}: use the config.json that was published with the weights"
            )
    shards = open_shards(folder, option)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}  # no counters
    used = {name for name in parameters if name.startswith(wanted)}
    shards.require_floating(name for name in shards.names if _renamed(name, renames) in used)
    return model


def check_agreement(
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: Mapping[str, int],
    folder: Path,
    advice: str = "use the files that were published together",
) -> None:
    """The tokenizer gives every token the id that the weights were trained with.

    Args:
        tokenizer: the text tokenizer.
        vocabulary: what `config.json` says of it, of some tokens or all.
        folder: of the tokenizer, for the message.
        advice: what to do otherwise.

    Raises:
        RowcastError: naming a token that has two ids.
    """
    for token, found in tokenizer.get_vocab().items():
        expected = vocabulary.get(token, found)
        if found != expected:
            raise RowcastError(
                f"expected id {expected} for {token} as in config.json, found {found} in the tokenizer of "
                f"{folder}: {advice}"
            )


def _renamed(name: str, renames: Mapping[str, str] | None) -> str:
    """Today's name of a weight."""
    for pattern, replacement in (renames or {}).items():
        name = re.sub(pattern, replacement, name)
    return name


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bar and its table of missing weights, which `read_model` judges."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()  # it counts tensors, most of which load in no time
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _broken(folder: Path, what: str, error: Exception) -> RowcastError:
    return RowcastError(
        f"expected loadable {what} in {folder}, found {first_line(error)}: fetch or save the folder again"
    )
