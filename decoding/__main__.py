"""Paints images from the command line.

python -m decoding prompt="a red sneaker on blue" heads=outputs/pocket/train/heads out=sneaker.png
python -m decoding prompt="a red sneaker on blue" decoder=ar num_images=9
"""

from conf.launch import launch
from conf.schema import DecodingJob


def run(job: DecodingJob) -> None:
    """Loads, paints and says what it took."""
    from dataclasses import asdict, replace
    from pathlib import Path

    from hydra.core.hydra_config import HydraConfig

    from backbones.registry import load_backbone
    from decoding.methods import build_method
    from decoding.paint import paint, require_writable
    from decoding.prompts import resolve_prompts

    prompts = resolve_prompts(job.prompt)
    require_writable(Path(job.out))
    options = {name: value for name, value in job.decoder.items() if name != "name"}
    if job.heads is None:
        # A decoder that needs heads says so here, before a backbone is loaded in vain.
        method = build_method(job.decoder["name"], options, None)
        backbone = load_backbone(**asdict(job.model))
    else:
        from checkpoints import find_bundle, load_heads

        bundle = find_bundle(job.heads)  # a wrong name is noticed before a backbone is loaded in vain
        backbone = load_backbone(**asdict(job.model))
        method = build_method(job.decoder["name"], options, load_heads(bundle, backbone))
    overrides = {name: value for name, value in asdict(job.sampling).items() if value is not None}
    painting = paint(
        backbone,
        method,
        prompts,
        images=job.num_images,
        seed=job.seed,
        batch=job.batch,
        sampling=replace(backbone.sampling, **overrides),
        size=job.size,
        out=Path(job.out),
    )
    decoder = HydraConfig.get().runtime.choices["decoder"]
    kind = "lossless" if method.lossless else "lossy"
    print(
        f"{painting.images} x {decoder} ({kind}): {painting.forwards:g} forwards an image "
        f"(autoregression takes {backbone.grid.size}), {painting.seconds:.2f} s of decoding\n{painting.path}"
    )


if __name__ == "__main__":
    launch("decoding", DecodingJob, run)
