"""Stage 1 of `backbones.pocket.pretrain`: the VQ tokenizer, 32x32 pixels to 16x16 of 512 codes.

Unit-norm codes (as `JanusVQVAE.decode` normalises them and `encode` does not), k-means start,
restart of unused codes, L1 + L2 + gradient loss.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import l1_loss, mse_loss, normalize
from transformers.models.janus.modeling_janus import JanusVQVAE

from backbones.pocket.photographs import Photographs, draw_colours, tint
from backbones.pocket.schedule import Stage, batch_generator

BATCH = 32
RESTART_EVERY = 100
WARM_UP = 300  # continuous autoencoder first, so that k-means sees a settled latent space


def encode(vq: JanusVQVAE, pixels: Float[Tensor, "B 3 32 32"]) -> Float[Tensor, "B 8 16 16"]:
    """Unit-norm latents before quantisation; pixels in [-1, 1]."""
    return normalize(vq.quant_conv(vq.encoder(pixels)), dim=1)


def nearest(vq: JanusVQVAE, latents: Float[Tensor, "B 8 16 16"]) -> Int[Tensor, "B 256"]:
    """The code with the largest cosine, in raster order."""
    flat = latents.float().permute(0, 2, 3, 1).flatten(1, 2)
    return (flat @ vq.quantize.embedding.weight.T).argmax(-1)


def tokenize(vq: JanusVQVAE, pixels: Float[Tensor, "B 3 32 32"]) -> Int[Tensor, "B 256"]:
    """Image to codes; pixels in [0, 1]."""
    return nearest(vq, encode(vq, 2 * pixels - 1))


def train_tokenizer(vq: JanusVQVAE, photographs: Photographs, stage: Stage) -> None:
    """Trains `vq` in place for `stage.steps` steps, from wherever `stage` was interrupted."""
    vq.train()
    codebook = vq.quantize.embedding.weight
    weights = [p for p in vq.parameters() if p is not codebook]
    optimiser = torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.01}, {"params": [codebook], "weight_decay": 0.0}],
        lr=1e-3,
        betas=(0.9, 0.99),
    )
    used = torch.zeros(len(codebook), dtype=torch.long)
    for step in stage.resume({"vq": vq}, optimiser, {"used": used}):
        stage.set_rate(optimiser, 1e-3, warm_up=50, decay_from=0.5)
        generator = batch_generator(stage.seed, step)
        pixels = 2 * draw(photographs, BATCH, generator) - 1
        with torch.autocast("cpu", torch.bfloat16):
            latents = encode(vq, pixels)
            if step < WARM_UP:
                quantised, commitment = latents, latents.new_zeros(())
            else:
                codes = nearest(vq, latents.detach())
                used += torch.bincount(codes.flatten(), minlength=len(codebook))
                chosen = normalize(codebook[codes], dim=-1).unflatten(1, (16, 16)).permute(0, 3, 1, 2)
                commitment = mse_loss(chosen, latents.detach()) + 0.25 * mse_loss(latents, chosen.detach())
                quantised = latents + (chosen - latents).detach()
            painted = vq.decoder(vq.post_quant_conv(quantised)).float()
        loss = reconstruction_loss(painted, pixels) + commitment
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vq.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            if step == WARM_UP - 1:
                codebook.copy_(k_means(latent_pool(vq, photographs, generator), len(codebook), generator))
            codebook.copy_(normalize(codebook, dim=-1))
            if step > WARM_UP and step % RESTART_EVERY == 0 and step < 0.7 * stage.steps:
                restart_unused(vq, photographs, used, generator)
        stage.report(step, loss=loss.item(), psnr=-10 * mse_loss(painted / 2, pixels / 2).log10().item())
    vq.eval()


def draw(photographs: Photographs, count: int, generator: torch.Generator) -> Float[Tensor, "B 3 32 32"]:
    """A random batch of tinted photographs, pixels in [0, 1]."""
    index = torch.randint(len(photographs.grey), (count,), generator=generator)
    return tint(photographs.grey[index], *draw_colours(count, generator))


def reconstruction_loss(
    painted: Float[Tensor, "B 3 32 32"], pixels: Float[Tensor, "B 3 32 32"]
) -> Float[Tensor, ""]:
    """L1 + L2 on pixels, and L1 on their horizontal and vertical differences (edges)."""
    edges = sum(l1_loss(painted.diff(dim=d), pixels.diff(dim=d)) for d in (-1, -2))
    return l1_loss(painted, pixels) + mse_loss(painted, pixels) + edges


def latent_pool(vq: JanusVQVAE, photographs: Photographs, generator: torch.Generator) -> Float[Tensor, "P 8"]:
    """Latents of 256 images to place codes on."""
    latents = encode(vq, 2 * draw(photographs, 256, generator) - 1)
    return latents.permute(0, 2, 3, 1).flatten(0, 2)


def k_means(points: Float[Tensor, "P 8"], count: int, generator: torch.Generator) -> Float[Tensor, "V 8"]:
    """Spherical k-means, ten rounds."""
    centres = points[torch.randperm(len(points), generator=generator)[:count]]
    for _ in range(10):
        owner = (points @ centres.T).argmax(-1)
        sums = torch.zeros_like(centres).index_add_(0, owner, points)
        lost = torch.bincount(owner, minlength=count) == 0
        sums[lost] = points[torch.randint(len(points), (int(lost.sum()),), generator=generator)]
        centres = normalize(sums, dim=-1)
    return centres


def restart_unused(
    vq: JanusVQVAE, photographs: Photographs, used: Int[Tensor, " V"], generator: torch.Generator
) -> None:
    """Moves codes unused since the last call onto random latents, then starts counting anew."""
    pool = latent_pool(vq, photographs, generator)
    dead = used == 0
    vq.quantize.embedding.weight[dead] = pool[
        torch.randint(len(pool), (int(dead.sum()),), generator=generator)
    ]
    used.zero_()
