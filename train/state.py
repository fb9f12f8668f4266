"""The state of a run in one form, whatever the strategy and the number of processes that trained.

Weights and moments are whole fp32 tensors by the name of their parameter. Rank 0 gets them from strategies
that shard, and each process takes its shards from them again: bit for bit the same on the same number.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import functional

NAMES = "param_names"
"""The entry of an optimiser's group that torch keeps beside the parameters."""


def whole_weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights; of sharded ones (FSDP2) rank 0 gets all and the others nothing."""
    return _kept({name: _whole(weight) for name, weight in module.state_dict().items()})


def load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Puts whole weights in place of the module's own, which may be sharded."""
    own = module.state_dict()
    module.load_state_dict({name: _like(weight, own[name]) for name, weight in weights.items()})


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """`state` by parameter name, and `param_groups` with the names and what the schedule has set.

    It is empty before the first step.
    """
    state = {
        name: {key: _whole(value) for key, value in optimiser.state[weight].items()}
        for name, weight in _named(optimiser)
        if weight in optimiser.state
    }
    return {"state": _kept(state), "param_groups": scheduled(optimiser.param_groups)}


def load_optimiser_state(optimiser: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Restores what `optimiser_state` gave."""
    moments = saved["state"]
    own = optimiser.state_dict()  # its own numbering of the parameters
    state = {
        index: {
            key: _like(value, weight) if value.shape == weight.shape else value.clone()
            for key, value in moments[name].items()
        }
        for index, (name, weight) in enumerate(_named(optimiser))
        if name in moments
    }
    optimiser.load_state_dict({"state": state, "param_groups": own["param_groups"]})
    restore_schedule(optimiser.param_groups, saved["param_groups"])


def scheduled(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What changes of an optimiser's groups in training, and the names of their parameters."""
    return [{NAMES: list(group[NAMES]), "lr": group["lr"]} for group in groups]


def restore_schedule(groups: list[dict[str, Any]], saved: list[dict[str, Any]]) -> None:
    """Goes on with the learning rates that `scheduled` gave."""
    for group, old in zip(groups, saved, strict=True):
        group["lr"] = old["lr"]


def _named(optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for group in optimiser.param_groups:
        yield from zip(group[NAMES], group["params"], strict=True)


def _whole(tensor: Tensor) -> Tensor:
    """A collective for a sharded tensor."""
    return tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor


def _kept(values: dict[str, Any]) -> dict[str, Any]:
    """On rank 0, which writes; the others have copies of their own or need none."""
    distributed = torch.distributed
    first = not (distributed.is_initialized() and distributed.get_rank())
    return values if first else {}


def _like(value: Tensor, own: Tensor) -> Tensor:
    """This process's part of a whole tensor that all processes have."""
    if not isinstance(own, DTensor):
        return value.clone()  # the file is mapped: nothing may go on living in it
    placed = value.to(own.device)
    return distribute_tensor(placed, own.device_mesh, own.placements, src_data_rank=None)


class ZeroState:
    """The same of a module whose optimiser is DeepSpeed's, at any ZeRO stage.

    The masters of the weights count, not the copies that forwards read.

    Args:
        module: That DeepSpeed's engine holds.
        zero: The engine's optimiser.
    """

    def __init__(self, module: nn.Module, zero: Any) -> None:
        self._named = list(module.named_parameters())
        self._zero = zero
        self._sharded = not hasattr(zero, "single_partition_of_fp32_groups")  # stages 1 and 2
        self._partitions: list[Tensor] = (
            zero.fp32_partitioned_groups_flat if self._sharded else zero.single_partition_of_fp32_groups
        )

    def weights(self) -> dict[str, Tensor]:
        from deepspeed.utils import safe_get_full_fp32_param

        return self._gathered(safe_get_full_fp32_param)

    def optimiser(self) -> dict[str, Any]:
        from deepspeed.utils import safe_get_full_optimizer_state

        inner = self._zero.optimizer
        state: dict[str, dict[str, Tensor]] = {}
        self._link()
        # One flat tensor holds many parameters, and all are as old as the run.
        for key, value in inner.state.get(self._partitions[0], {}).items():
            if key == "step":
                moments = _kept({name: value.clone() for name, _ in self._named})
            else:
                moments = self._gathered(lambda weight, key=key: safe_get_full_optimizer_state(weight, key))
            for name, moment in moments.items():
                state.setdefault(name, {})[key] = moment
        return {"state": state, "param_groups": scheduled(inner.param_groups)}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        import deepspeed

        gathered = deepspeed.zero.GatheredParameters
        for name, weight in self._named:
            value = weights[name].to(weight.device)
            with torch.no_grad(), gathered([weight], modifier_rank=0, enabled=self._sharded):
                weight.copy_(value)
            self._set(weight, value, None)

    def load_optimiser(self, saved: Mapping[str, Any]) -> None:
        inner = self._zero.optimizer
        restore_schedule(inner.param_groups, saved["param_groups"])
        if not saved["state"]:
            return
        example = next(iter(saved["state"].values()))
        for flat in self._partitions:
            inner.state[flat] = {
                key: value.clone() if key == "step" else torch.zeros_like(flat)
                for key, value in example.items()
            }
        self._link()
        for name, weight in self._named:
            for key, value in saved["state"][name].items():
                if key != "step":
                    self._set(weight, value.to(weight.device), key)

    def _link(self) -> None:
        """Tells the parameters where their moments are, at stages 1 and 2.

        DeepSpeed does so after the step of the first group, when the others have no moments yet.
        """
        if not self._sharded:
            self._zero._hp_optimizer_states_linked = False
            self._zero._lazy_init_hp_params_optimizer_state()

    def _gathered(self, get: Any) -> dict[str, Tensor]:
        """Of every parameter, one at a time; rank 0 keeps them."""
        found = {}
        for name, weight in self._named:
            value = get(weight).detach().cpu()
            found |= _kept({name: value.clone()})
        return found

    def _set(self, weight: Tensor, value: Tensor, key: str | None) -> None:
        """Puts this process's part of a whole tensor into the master of `weight`, or one of its moments."""
        from deepspeed import utils

        if not self._sharded:
            if key is None:
                utils.safe_set_full_fp32_param(weight, value)
            else:
                utils.safe_set_full_optimizer_state(weight, value, key)
            return
        # Equal parts; DeepSpeed's own way to set whole tensors fails where the last one is padded.
        size = weight.ds_tensor.numel()  # pyright: ignore[reportAttributeAccessIssue]
        start = size * torch.distributed.get_rank()
        part = value.flatten()[start : start + size]
        part = functional.pad(part, (0, size - part.numel()))
        if key is None:
            utils.safe_set_local_fp32_param(weight, part)
        else:
            utils.safe_set_local_optimizer_state(weight, part, key)
