"""Scores of painted images under named protocols: GenEval, DPG-Bench, CLIP-score, FID and KID.

`rules` judge plain values (detections, answers, features) and know no model; `backends` are the models that
see; `layouts` are the folders that the official evaluators read; `docs/scorers.md` says what compares with what.
"""
