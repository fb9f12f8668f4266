"""The sweep's cells on the disk, whole at any moment: a killed benchmark goes on with the next batch size."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.latency.figures import Cell, LatencyPlan, Skipped
from eval.samples import contract_hash, unwritable
from eval.typed_json import read_typed


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What of a sweep was measured."""

    cells: list[Cell]
    skipped: list[Skipped]


class CellFile:
    """The cells of one contract and plan, in a file that is named by them; batch sizes may be added."""

    def __init__(self, folder: Path, contract: str, plan: LatencyPlan) -> None:
        rest = {name: value for name, value in asdict(plan).items() if name != "batches"}
        self.path = folder / f"latency-{contract_hash({'contract': contract, **rest})}.json"
        self._batches = plan.batches

    def read(self) -> Kept:
        """The cells of this plan's batch sizes; none where nothing was measured.

        Raises:
            RowcastError: if the file is damaged.
        """
        kept = self._all()
        return Kept(
            cells=[cell for cell in kept.cells if cell.batch in self._batches],
            skipped=[entry for entry in kept.skipped if entry.batch in self._batches],
        )

    def keep(self, cells: Sequence[Cell], skipped: Sequence[Skipped]) -> None:
        """Writes the cells of this plan, beside those of other batch sizes.

        Raises:
            RowcastError: if the file cannot be written.
        """
        kept = self._all()
        others = [cell for cell in kept.cells if cell.batch not in self._batches]
        left = [entry for entry in kept.skipped if entry.batch not in self._batches]
        whole = Kept(cells=[*others, *cells], skipped=[*left, *skipped])
        try:
            write_durably(self.path, json.dumps(asdict(whole)))
        except OSError as error:
            raise unwritable(self.path, error) from None

    def _all(self) -> Kept:
        if not self.path.is_file():
            return Kept(cells=[], skipped=[])
        try:
            return read_typed(Kept, json.loads(self.path.read_text()), str(self.path))
        except ValueError:
            raise RowcastError(
                f"expected cells of a latency sweep in {self.path}, found other content: delete the file and "
                "run the same command again"
            ) from None
