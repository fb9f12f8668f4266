"""The one contract of every frozen image generator; nothing above this package knows a family.

Callers see image tokens only, as codes `0..V-1` in raster order. Vocabulary offsets, size tokens, row
ends, the guidance pair and padding stay inside.

Shapes: `N` images, `G` guidance branches (2, or 1 without guidance; conditional rows first),
`GN = G*N`, `T` tokens in a block, `D` width, `V` image codes, `P = rows*cols` positions of a grid.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from backbones.errors import RowcastError


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The token grid of one image."""

    rows: int
    cols: int

    @property
    def size(self) -> int:
        """Image tokens in the grid (`P`); row ends are not counted."""
        return self.rows * self.cols


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn from logits: guidance, then temperature, top-k and top-p."""

    guidance: float
    """Classifier-free guidance scale g in `u + g*(c - u)`; 1 means no guidance."""
    temperature: float = 1.0
    """Divides the guided logits; 0 means greedy."""
    top_k: int | None = None
    """Keep the k most likely codes; none keeps all."""
    top_p: float | None = None
    """Keep the smallest set of codes with this mass; none keeps all."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """N encoded prompts with their guidance branches, padded on the left."""

    embeds: Float[Tensor, "GN L D"]
    mask: Bool[Tensor, "GN L"]
    images: int
    """N; `embeds` holds G*N rows, conditional ones first."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one trunk call returns; entry t of a block predicts the image token after it."""

    hidden: Float[Tensor, "GN T D"]
    """Trunk output before the final norm (the emission states of the next tokens)."""
    logits: Float[Tensor, "GN T V"]
    """`head(hidden)`, in fp32."""


class Backbone(ABC):
    """A frozen generator. `begin` opens a session of N images; `forward` and `keep` move its cache."""

    name: str
    grid: Grid
    codes: int
    """V, the number of image codes."""
    width: int
    """D, the width of a state."""
    sampling: Sampling
    """The family's official sampling settings."""
    fingerprint: str
    """Hash over everything that decides states and logits: what a head bundle is tied to."""
    source: str | None = None
    """Optional: where a hub has the weights, `organisation/repository@commit`, perhaps with a file before the
    `@`; none for local files."""

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The trunk's dtype, and so that of `hidden`."""

    @property
    def paints(self) -> bool:
        """Whether `codebook` and `decode` have their weights; tokens can be had without."""
        return True

    @property
    def parts(self) -> Mapping[str, nn.Module]:
        """The frozen modules behind states and logits, by role; `norm` is the final one."""
        return {}

    def spell(self, prompt: str) -> list[tuple[int, str]]:
        """The ids of an encoded prompt and what each stands for, for people; empty where prompts are no text.

        Raises:
            RowcastError: as `encode`.
        """
        return []

    @abstractmethod
    def to(self, device: torch.device | str) -> "Backbone":
        """Moves the weights; any open session is closed."""

    def twin(self) -> "Backbone":
        """Optional: the same weights with sessions of its own, for another thread at the same time.

        Take it when the weights are where they stay: `to` does not reach it.

        Raises:
            RowcastError: if the backbone cannot.
        """
        raise RowcastError(
            f"expected a backbone that two threads can share, found {self.name}: set data.mode=ids"
        )

    def close(self) -> None:  # noqa: B027
        """Optional: closes the open session, so that whatever goes on with it raises RowcastError."""

    @abstractmethod
    def encode(self, prompts: Sequence[str], guided: bool = True) -> Prompt:
        """Encodes prompts; the last position of each row predicts image token 0.

        `guided=False` leaves the unconditional branch out (G = 1).

        Raises:
            RowcastError: if a prompt is empty, too long or holds what the model cannot take.
        """

    @abstractmethod
    def begin(self, prompt: Prompt) -> Step:
        """Prefill: a fresh session for `prompt`; `T = 1`, the emission state of image token 0."""

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "N T"]) -> Step:
        """Appends T image tokens to the session; entry t predicts image token n+t+1."""

    @abstractmethod
    def keep(self, length: int) -> None:
        """Rolls the session back to its first `length` image tokens."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Image tokens in the open session's cache."""

    @property
    def cache_bytes(self) -> int | None:
        """Optional: bytes of keys and values that the open session holds, the prompt's among them; none where
        they are not counted.
        """
        return None

    @abstractmethod
    def embed(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        """What the trunk is fed for image tokens."""

    @abstractmethod
    def head(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Final norm, then the image slice of the output layer, in fp32: the only way to logits.

        Its weights are frozen; gradients of `hidden` pass through it.
        """

    @abstractmethod
    def codebook(self) -> Float[Tensor, "V d"]:
        """Decoder-side code vectors.

        Raises:
            RowcastError: if the backbone was loaded without its VQ weights.
        """

    @abstractmethod
    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        """Pixels; the VQ decoder runs in fp32.

        Raises:
            RowcastError: if the backbone was loaded without its VQ weights, or `tokens` are not whole images.
        """

    @abstractmethod
    def states(self, prompt: Prompt, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "GN P D"]:
        """Emission states of whole images by one teacher-forced forward; entry p emits token p.

        Does not touch an open session.
        """

    def forward_at(
        self, tokens: Int[Tensor, "N T"], places: Sequence[int], sees: Bool[Tensor, "T E"]
    ) -> Step:
        """Optional: appends T image tokens at any raster places, each seeing what it is told to.

        For decoders whose drafts are a tree, or lie in several rows at once. An entry is a fed token;
        entries are numbered in order of arrival, those of `forward` included.

        Args:
            tokens: image codes, at most one a place and path.
            places: their raster places; entry t's output is the law of the place after `places[t]`.
            sees: which entries each new token attends to, beside the prompt and itself; `E` counts the
                entries in the cache, then the new ones.

        Raises:
            RowcastError: if the backbone cannot, or the arguments do not agree.
        """
        raise RowcastError(
            f"expected a backbone with custom masks, found {self.name}: choose a decoder without trees"
        )

    def keep_entries(self, entries: Sequence[int]) -> None:
        """Keeps these entries alone, in this order; `forward` and `keep` work again once they hold the
        places 0, 1, 2 ... in order.

        Raises:
            RowcastError: if the backbone cannot, or an entry is not in the cache.
        """
        raise RowcastError(
            f"expected a backbone with custom masks, found {self.name}: choose a decoder without trees"
        )
