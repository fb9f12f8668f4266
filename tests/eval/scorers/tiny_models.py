"""Tiny random models of the real classes, saved as they are published and loaded by the scorers' own way."""

import json

import torch
from transformers import (
    BertTokenizer,
    BlipConfig,
    BlipForQuestionAnswering,
    BlipImageProcessorPil,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTokenizer,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    SwinConfig,
    ViltConfig,
    ViltForQuestionAnswering,
    ViltImageProcessorPil,
)

from eval.scorers.backends.load import Place

WORDS = ["a", "photo", "of", "red", "blue", "book", "is", "there", "the", "yes", "no", "?", ",", "depicts"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def place(folder, option="clip", **changes):
    return Place(path=str(folder), option=option, device="cpu", **changes)


def save_clip(folder, seed=0):
    torch.manual_seed(seed)
    vocabulary = [*(letter + end for letter in [*LETTERS, "?", ",", "-"] for end in ("", "</w>"))]
    vocabulary += ["<|startoftext|>", "<|endoftext|>"]
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    start, end = len(vocabulary) - 2, len(vocabulary) - 1
    text = {**sizes, "vocab_size": len(vocabulary), "max_position_embeddings": 77}
    text |= {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    CLIPModel(config).save_pretrained(folder)
    words = {word: number for number, word in enumerate(vocabulary)}
    CLIPTokenizer(vocab=words, merges=[], model_max_length=77).save_pretrained(folder)
    size = {"shortest_edge": 32}
    CLIPImageProcessorPil(size=size, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_mask2former(folder, labels=80):
    torch.manual_seed(0)
    swin = SwinConfig(
        image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4
    )
    swin.out_features = ["stage1", "stage2", "stage3", "stage4"]
    config = Mask2FormerConfig(
        backbone_config=swin,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=16,
        num_queries=5,
        num_labels=labels,
    )
    Mask2FormerForUniversalSegmentation(config).save_pretrained(folder)
    return folder


def save_bert_words(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[DEC]", *WORDS]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(folder)
    return vocabulary


def save_blip(folder):
    torch.manual_seed(0)
    vocabulary = save_bert_words(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(vocabulary), "max_position_embeddings": 32, "encoder_hidden_size": 32}
    text |= {"bos_token_id": vocabulary["[DEC]"], "sep_token_id": vocabulary["[SEP]"], "pad_token_id": 0}
    # The library's own 1e-10 would show the text nothing of the image.
    vision = {**sizes, "image_size": 32, "patch_size": 8, "initializer_range": 0.02}
    BlipForQuestionAnswering(BlipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    BlipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_vilt(folder, answers=("no", "red", "yes")):
    torch.manual_seed(0)
    vocabulary = save_bert_words(folder)
    config = ViltConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        max_position_embeddings=40,
        id2label=dict(enumerate(answers)),
        label2id={answer: number for number, answer in enumerate(answers)},
    )
    ViltForQuestionAnswering(config).save_pretrained(folder)
    ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=8).save_pretrained(folder)
    return folder


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
