"""Chameleon's trunk and the image rows of its output layer, read from published checkpoints.

transformers' own loading refuses Lumina-mGPT's query and key norms, and would leave the image encoder of a
checkpoint without one at random values; so the weights are put in place here, and the encoder left out.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import ChameleonConfig, ChameleonModel

from backbones.chameleon_vocabulary import image_ids, published_vocabulary
from backbones.errors import RowcastError
from backbones.shards import Shards

CONTEXT = 4096
"""Positions of the published 7B models; Lumina's -1024, which must have more, says so in its config.json."""


def published_config() -> ChameleonConfig:
    """The configuration of the 7B models; its trunk and whole output layer hold 7.01 billion weights."""
    return ChameleonConfig(max_position_embeddings=CONTEXT, vocabulary_map=published_vocabulary())


def read_trunk(shards: Shards, config: ChameleonConfig, dtype: torch.dtype) -> ChameleonModel:
    """The trunk, its weights mapped from the shards where they have `dtype` already.

    Raises:
        RowcastError: if a weight is missing, broken, of another shape, or one that the trunk does not know.
    """
    with torch.device("meta"):
        trunk = ChameleonModel(config)
    drop_encoder(trunk)
    trunk.rotary_emb = type(trunk.rotary_emb)(config=config)  # its table is computed, not stored
    expected = trunk.state_dict()
    for name in shards.names:
        inside = name.removeprefix("model.")
        if inside.startswith("layers.") and inside not in expected and not inside.endswith("inv_freq"):
            raise RowcastError(
                f"expected no weight {name} in a Chameleon of this config.json, found one: "
                "fetch config.json and weights from the same place"
            )
    state = {
        name: _fitted(shards.read(f"model.{name}"), like, name).to(dtype) for name, like in expected.items()
    }
    trunk.load_state_dict(state, assign=True)
    return trunk


def read_image_head(shards: Shards, config: ChameleonConfig, dtype: torch.dtype) -> nn.Linear:
    """The rows of the output layer that predict image codes, in the order of the codes.

    Raises:
        RowcastError: if they are missing, broken or of another shape.
    """
    ids = torch.tensor(image_ids(vocabulary_of(config)))
    first = int(ids.min())
    rows = shards.rows("lm_head.weight", first, int(ids.max()) + 1)[ids - first].to(dtype)
    with torch.device("meta"):
        head = nn.Linear(config.hidden_size, len(ids), bias=False)
    head.load_state_dict({"weight": _fitted(rows, head.weight, "lm_head.weight")}, assign=True)
    return head


def _fitted(weight: Float[Tensor, "..."], like: Float[Tensor, "..."], name: str) -> Float[Tensor, "..."]:
    """The weight in the shape of `like`.

    The gains and shifts of the query and key norms are stored once for each device that Meta trained on (one
    for 7B, eight for 34B); the heads of a device share them.
    """
    if ".q_norm." in name or ".k_norm." in name:
        weight = weight.repeat_interleave(max(1, like.shape[0] // weight.shape[0]), 0)
    if weight.shape != like.shape:
        raise RowcastError(
            f"expected {name} of shape {list(like.shape)} as config.json says, found {list(weight.shape)}: "
            "fetch config.json and weights from the same place"
        )
    return weight


def drop_encoder(trunk: ChameleonModel) -> None:
    """Takes out what serves image understanding alone, so that nothing moves, packs or hashes it."""
    del trunk.vqmodel, trunk.vocabulary_mapping


def vocabulary_of(config: ChameleonConfig) -> Mapping[str, int]:
    """Names and ids of all tokens; empty where `config.json` has none."""
    return config.vocabulary_map or {}
