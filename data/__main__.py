"""Makes rollouts: images that the backbone samples for itself, to train draft heads on.

python -m data                                                  (the pocket model, on a laptop's CPU)
python -m data model=pocket rollouts.images=2000 rollouts.prompts=prompts.txt
torchrun --nproc_per_node=8 -m data +model=emu3 rollouts.images=60000     (eight GPUs; and as many machines)
"""

from conf.launch import launch
from conf.schema import DataJob


def run(job: DataJob) -> None:
    """Makes what is missing of the set, checks all of it and says where it is."""
    from dataclasses import asdict, replace

    import torch

    from backbones.registry import load_backbone, rollout_prompts
    from data.bill import check_disk, rollout_bytes
    from data.processes import local_rank, rank_and_count
    from data.rollout import make_rollouts, rollouts_at_once
    from decoding.prompts import read_prompts

    options = asdict(job.rollouts)
    file = options.pop("prompts")
    prompts = read_prompts(file) if file else rollout_prompts(job.model.name)
    if devices := torch.cuda.device_count():
        torch.cuda.set_device(local_rank() % devices)
    backbone = load_backbone(**asdict(job.model))
    overrides = {name: value for name, value in asdict(job.sampling).items() if value is not None}
    sampling = replace(backbone.sampling, **overrides)
    plan = {name: options[name] for name in ("images", "shard_images", "seed")}
    check_disk(job.rollouts.folder, rollout_bytes(prompts, grid=backbone.grid, sampling=sampling, **plan))
    options["batch"] = rollouts_at_once(backbone, sampling, prompts, options["batch"])
    rollouts = make_rollouts(backbone, prompts, sampling=sampling, **options)
    if rank_and_count()[0] != 0:
        return  # the first one speaks for all
    rollouts.verify()
    print(f"{len(rollouts)} rollouts of {backbone.name}, every shard verified: {rollouts.folder}")


if __name__ == "__main__":
    launch("data", DataJob, run)
