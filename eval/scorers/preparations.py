"""What the published protocols do to an image before a network sees it."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn import functional

Preparation = Callable[[Image.Image], Image.Image]
INCEPTION_SIZE = 299


def unchanged(image: Image.Image) -> Image.Image:
    """The image itself."""
    return image


def centre_square(image: Image.Image) -> Image.Image:
    """The largest square in the middle."""
    side = min(image.size)
    left, top = round((image.width - side) / 2), round((image.height - side) / 2)
    return image.crop((left, top, left + side, top + side))


def square_256(image: Image.Image) -> Image.Image:
    """LANTERN: the square in the middle, Lanczos to 256 pixels."""
    return centre_square(image).resize((256, 256), Image.Resampling.LANCZOS)


def square_256_through_floats(image: Image.Image) -> Image.Image:
    """LANTERN's CLIP-score: the same, then to -1..1 in fp32 and back by cutting off, which darkens some."""
    values = torch.arange(256, dtype=torch.float32)
    table = (((values / 255 - 0.5) / 0.5 + 1.0) * 127.5).clamp(0, 255).to(torch.uint8).numpy()
    return Image.fromarray(table[np.asarray(square_256(image))])


def squashed_299(image: Image.Image) -> Image.Image:
    """SJD's CLIP-score: bilinear to 299x299 whatever the shape, on bytes, without antialiasing."""
    pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None]
    resized = functional.interpolate(
        pixels, (INCEPTION_SIZE, INCEPTION_SIZE), mode="bilinear", align_corners=False
    )
    return Image.fromarray(resized[0].permute(1, 2, 0).numpy())


def pytorch_fid_input(image: Image.Image) -> Float[Tensor, "3 299 299"]:
    """pytorch-fid: bilinear to 299x299 without antialiasing, values -1 to 1."""
    scaled = _channels(np.asarray(image, np.float32)) / 255
    size = (INCEPTION_SIZE, INCEPTION_SIZE)
    return 2 * functional.interpolate(scaled[None], size, mode="bilinear", align_corners=False)[0] - 1


def clean_fid_input(image: Image.Image) -> Float[Tensor, "3 299 299"]:
    """clean-fid: Pillow's antialiased bicubic on each channel in fp32, never rounded; (x - 128) / 128."""
    channels = np.moveaxis(np.asarray(image, np.float32), 2, 0)
    size = (INCEPTION_SIZE, INCEPTION_SIZE)
    resized = [
        np.asarray(Image.fromarray(channel).resize(size, Image.Resampling.BICUBIC)) for channel in channels
    ]
    return (torch.from_numpy(np.stack(resized)) - 128) / 128


def _channels(pixels: Float[np.ndarray, "H W 3"]) -> Float[Tensor, "3 H W"]:
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)
