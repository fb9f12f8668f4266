"""`custom_generate/generate.py`: the code with which plain transformers paints with a bundle's heads.

It comes with Rowcast, and goes into a bundle as it is when publishing is asked to. Rowcast never runs it.
"""

from dataclasses import dataclass
from pathlib import Path

from backbones.errors import RowcastError
from checkpoints.config import BackboneFacts, BundleConfig
from checkpoints.places import hub_place

CODE_FILE = "custom_generate/generate.py"
LARGEST = 1 << 17
"""Bytes that it may have; ours has some 15,000."""
_SHIPPED = Path(__file__).parent / CODE_FILE

_PASSAGE = """\
### Without Rowcast

In plain transformers, 5.24 or later, by `{file}` of this folder. It decodes as `decoder=ssd`: \
lossy, whatever the figures above say of lossless decoders. `trust_remote_code=True` runs that file: read it \
before, and pin it by `revision=` where it comes from a hub.

```python
from PIL import Image
from transformers import AutoTokenizer, {model}

tokenizer = AutoTokenizer.from_pretrained({base}, padding_side="left")
model = {model}.from_pretrained({base}, dtype={dtype!r})
model.model.vqmodel.float()  # pixels in full precision; model.to("cuda") where there is one


def encode(*prompts):
    return tokenizer(prompts, padding=True, add_special_tokens=False, return_tensors="pt").to(model.device)


prompts = encode({prompt!r})
{before}painted = model.generate(
    prompts.input_ids,
    attention_mask=prompts.attention_mask,
{arguments}    custom_generate={place!r},
    heads={place!r},
{revision}    trust_remote_code=True,
)
pixels = {pixels}
shades = ((pixels[0] + 1) * 127.5).round().clamp(0, 255).byte()
Image.fromarray(shades.permute(1, 2, 0).cpu().numpy()).save("image.png")
```

"""


@dataclass(frozen=True, kw_only=True)
class _Family:
    """How plain transformers is told what to paint, as text with the grid's `rows` and `cols`."""

    model: str
    prompt: str
    negative: str | None
    pixels: str
    weights: str = "path/to/the/model"
    """Where they lie if no hub has them."""


def _families() -> dict[str, _Family]:
    from backbones import emu3_prompt, janus_prompt  # heavy

    header = f"{emu3_prompt.IMAGE_START}{{rows}}*{{cols}}{emu3_prompt.IMAGE_TOKENS}"
    janus = _Family(
        model="JanusForConditionalGeneration",
        prompt=f"{janus_prompt.BOS}<|User|>: a red cube\n\n<|Assistant|>:{janus_prompt.BOI}",
        negative=None,
        pixels="model.model.vqmodel.decode(painted)",
    )
    pocket = _Family(
        model=janus.model,
        prompt=f"<s> a red sneaker on blue {janus_prompt.BOI}",
        negative=None,
        pixels=janus.pixels,
        weights="backbones/pocket/weights",
    )
    emu3 = _Family(
        model="Emu3ForConditionalGeneration",
        prompt=f"{emu3_prompt.BOS}a red cube{emu3_prompt.LIKED}{header}",
        negative=f"{emu3_prompt.BOS}{emu3_prompt.AVOIDED}{header}",
        pixels="model.model.decode_image_tokens(\n"
        "    painted[:, prompts.input_ids.shape[1] :], height={rows}, width={cols}\n)",
    )
    return {"pocket": pocket, "janus": janus, "janus_1b": janus, "emu3": emu3}


def shipped_code(config: BundleConfig) -> bytes:
    """The file, for a bundle that it can paint with.

    Raises:
        RowcastError: if the heads are of another kind, or for a backbone that it does not know.
    """
    families = _families()
    kind, backbone = config.heads.name, config.backbone.name
    if kind != "ssd" or backbone not in families:
        raise RowcastError(
            f"expected ssd heads for {', '.join(families)} with custom_generate=true, found {kind} heads for "
            f"{backbone}: set custom_generate=false"
        )
    return _SHIPPED.read_bytes()


def is_shipped(folder: Path) -> bool:
    """Whether the file in a bundle is the one that comes with Rowcast."""
    path = folder / CODE_FILE
    return path.is_file() and path.stat().st_size <= LARGEST and path.read_bytes() == _SHIPPED.read_bytes()


def names_in(folder: Path) -> set[str]:
    """What lies in the folder of a bundle; of the code's own folder, what lies in that."""
    names = {entry.name for entry in folder.iterdir()}
    code = folder / Path(CODE_FILE).parent
    if code.is_dir():
        names = names - {code.name} | {f"{code.name}/{entry.name}" for entry in code.iterdir()}
    return names


def passage(backbone: BackboneFacts, place: str) -> str:
    """What a card says about painting without Rowcast, in Markdown.

    Args:
        backbone: of the heads; one of those that `shipped_code` takes.
        place: of the bundle, a folder or `organisation/name[@revision]`.
    """
    family, hub = _families()[backbone.name], hub_place(place)
    size = {"rows": backbone.rows, "cols": backbone.cols}
    base = repr(family.weights)
    if backbone.origin is not None:
        base = repr(backbone.origin.repository)
        base += "" if backbone.origin.revision is None else f", revision={backbone.origin.revision!r}"
    negative = "" if family.negative is None else family.negative.format(**size)
    return _PASSAGE.format(
        file=CODE_FILE,
        model=family.model,
        base=base,
        dtype=backbone.dtype,
        prompt=family.prompt.format(**size),
        before=f"avoided = encode({negative!r})\n" if negative else "",
        arguments="    negative_prompt_ids=avoided.input_ids,\n" if negative else "",
        place=place if hub is None else hub.repository,
        revision="" if hub is None or hub.revision is None else f"    revision={hub.revision!r},\n",
        pixels=family.pixels.format(**size),
    )
