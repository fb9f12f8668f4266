"""The bill of a run before it: bytes on disk, peak memory, hours; and what to change if it will not fit."""
