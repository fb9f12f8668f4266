"""The bill of a run before it: bytes on disk, peak memory, hours; and what to change where it will not fit."""
