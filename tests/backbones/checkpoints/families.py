"""The tiny checkpoint of every model, and prompts that it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Subject:
    """How tests come by a model."""

    writer: str | None
    """Function of this package that writes its checkpoint, as module:name; none where weights come along."""
    prompts: tuple[str, str] = ("a cat", "a red cube on blue")
    """Of different lengths, where the model's prompts have a length."""
    others: tuple[str, str] = ("a dog", "a new ball in grey")
    """Other words of the same lengths."""

    def write(self, folder: Path) -> dict[str, Any]:
        """Writes the checkpoint; what `load_backbone` takes beside the name."""
        if self.writer is None:
            return {}
        module, _, name = self.writer.partition(":")
        folder.mkdir(exist_ok=True)
        write: Callable[[Path], Mapping[str, Any]] = getattr(import_module(f"{__package__}.{module}"), name)
        return dict(write(folder))


SUBJECTS = {
    "pocket": Subject(
        writer=None,
        prompts=("blue trousers on red", "a red sneaker on blue"),
        others=("green trousers on red", "a white coat on black"),
    ),
    "lumina": Subject(writer="chameleon:write_lumina"),
    "anole": Subject(writer="chameleon:write_anole"),
    "janus": Subject(writer="janus:write_janus"),
    "janus_1b": Subject(writer="janus:write_janus"),
    "emu3": Subject(writer="emu3:write_emu3"),
    "llamagen_c2i": Subject(writer="llamagen:write_llamagen_c2i", prompts=("3", "7"), others=("5", "2")),
    "llamagen_t2i": Subject(writer="llamagen:write_llamagen_t2i"),
}
