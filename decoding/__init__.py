"""Every decoder behind one engine: draft, verify, repair, commit.

python -m decoding prompt="a red sneaker on blue" decoder=ar out=outputs/sneaker.png
"""
