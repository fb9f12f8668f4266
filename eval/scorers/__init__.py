"""Scores of painted images under named protocols: GenEval, DPG-Bench, CLIP-score, FID and KID.

`geneval`, `dpg` and `distances` are the rules, on plain values; `backends` are the models that see;
`layouts` and `dpg_files` are the folders that the official evaluators read; `docs/scorers.md` says what
compares with what.
"""
