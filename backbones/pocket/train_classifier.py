"""Stage 3 of `backbones.pocket.pretrain`: the garment classifier that judges paintings."""

import torch
from torch.nn.functional import cross_entropy

from backbones.pocket.judge import GarmentClassifier
from backbones.pocket.photographs import Photographs, draw_colours, tint
from backbones.pocket.schedule import Stage, batch_generator

BATCH = 128
PEAK_RATE = 3e-3


def train_classifier(network: GarmentClassifier, photographs: Photographs, stage: Stage) -> None:
    """Trains on real tinted photographs, mirrored and lightly blurred or not, in place."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=PEAK_RATE, weight_decay=0.02)
    network.train()
    # The faster layout for bf16 convolutions on a CPU.
    network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    for step in stage.resume({"classifier": network}, optimiser, {}):
        stage.set_rate(optimiser, PEAK_RATE, warm_up=50, decay_from=0.3)
        generator = batch_generator(stage.seed, step)
        index = torch.randint(len(photographs.grey), (BATCH,), generator=generator)
        pixels = 2 * tint(photographs.grey[index], *draw_colours(BATCH, generator)) - 1
        if step % 2:  # a tokenizer softens edges; the judge must not mind
            pixels = torch.nn.functional.avg_pool2d(pixels, 3, stride=1, padding=1, count_include_pad=False)
        if step // 2 % 2:
            pixels = pixels.flip(-1)
        with torch.autocast("cpu", torch.bfloat16):
            scores = network(pixels)
        loss = cross_entropy(scores.float(), photographs.garment[index])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        stage.report(step, loss=loss.item())
    network.eval()


@torch.no_grad()
def test_accuracy(network: GarmentClassifier, photographs: Photographs, seed: int) -> float:
    """Fraction of right garments on a tinted split."""
    generator = torch.Generator().manual_seed(seed)
    right = 0
    for start in range(0, len(photographs.grey), 500):
        part = slice(start, start + 500)
        grey = photographs.grey[part]
        pixels = 2 * tint(grey, *draw_colours(len(grey), generator)) - 1
        right += int((network(pixels).argmax(-1) == photographs.garment[part]).sum())
    return right / len(photographs.grey)
