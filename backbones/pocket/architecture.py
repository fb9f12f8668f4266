"""The pocket model's shape: a real Janus checkpoint, small enough for a laptop.

Same classes, file names and configuration fields as Janus-Pro, so that it loads through the same code.
"""

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import JanusConfig, JanusForConditionalGeneration, LlamaConfig, PreTrainedTokenizerFast
from transformers.models.janus.configuration_janus import JanusVisionConfig, JanusVQVAEConfig

from backbones.pocket.photographs import COLOUR_NAMES, GARMENTS

BOS, PAD, BOI = "<s>", "<pad>", "<begin_of_image>"
PAD_ID = 1
ROWS = COLS = 16
CODES = 512
WIDTH = 192


def text_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of whole words: the captions' vocabulary and nothing else."""
    words = [BOS, PAD, BOI, "<unk>", "a", "an", "on", *COLOUR_NAMES, *GARMENTS]
    model = WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        pad_token=PAD,
        unk_token="<unk>",
        additional_special_tokens=[BOI],
        model_max_length=32,
        padding_side="left",
    )


def configuration() -> JanusConfig:
    """Janus at pocket size: 192 wide, 6 layers, 16x16 tokens of 512 codes for 32x32 pixels."""
    text = LlamaConfig(
        vocab_size=len(text_tokenizer()),
        hidden_size=WIDTH,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=512,
        pad_token_id=PAD_ID,
        bos_token_id=0,
        eos_token_id=PAD_ID,
    )
    # The vision encoder (image understanding) is never used here: as small as the class allows.
    vision = JanusVisionConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=2,
        projection_dim=WIDTH,
        num_image_tokens=ROWS * COLS,
    )
    image = JanusVQVAEConfig(
        embed_dim=8,
        num_embeddings=CODES,
        latent_channels=64,
        base_channels=64,
        channel_multiplier=[1, 2],
        num_res_blocks=1,
        num_patches=ROWS,
        projection_dim=WIDTH,
        image_token_embed_dim=WIDTH,
    )
    return JanusConfig(text_config=text, vision_config=vision, vq_config=image, image_token_id=3)


def untrained(seed: int) -> JanusForConditionalGeneration:
    """A freshly initialised pocket model with fixed random weights."""
    import torch

    torch.manual_seed(seed)
    return JanusForConditionalGeneration(configuration())
