"""The lines of a check as its proofs finish, and the table at its end."""

import shutil
from collections import Counter

from backbones.proof import Proof

HEADING = ("proof", "verdict", "seconds", "found")


class Report:
    """Prints proofs and remembers them."""

    def __init__(self) -> None:
        self.proofs: list[Proof] = []

    @property
    def failed(self) -> bool:
        return any(proof.ok is False for proof in self.proofs)

    def add(self, proof: Proof) -> None:
        """Prints one line, and a second one that says what to do about a failure."""
        self.proofs.append(proof)
        line = f"{proof.verdict:<8} {proof.name}: expected {proof.expected}, found {proof.found}"
        print(f"{line} ({proof.seconds:.1f} s)", flush=True)
        if proof.ok is False and proof.advice:
            print(f"{'':<8} {proof.advice}", flush=True)

    def table(self) -> str:
        """Every proof once more, and how many hold."""
        rows = [HEADING, *((p.name, p.verdict, f"{p.seconds:.1f}", p.found) for p in self.proofs)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"{name:<{widths[0]}}  {verdict:<{widths[1]}}  {seconds:>{widths[2]}}  {found}"
            for name, verdict, seconds, found in rows
        ]
        longest = shutil.get_terminal_size(fallback=(160, 24)).columns
        lines = [line if len(line) <= longest else f"{line[: longest - 3]}..." for line in lines]
        counts = Counter(proof.verdict for proof in self.proofs)
        summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("ok", "FAILED", "untested"))
        return "\n".join(["", lines[0], "-" * len(lines[0]), *lines[1:], "", summary])
