"""Flat drawings whose content is known: squares (book), discs (sports ball), diamonds (kite)."""

from PIL import Image, ImageDraw

from eval.scorers.backends.shapes import PALETTE

GREY = (119, 119, 119)


def drawing(*shapes, size=64):
    """Shapes are (name, colour, (x, y)) of the centre, 16 pixels wide."""
    image = Image.new("RGB", (size, size), GREY)
    draw = ImageDraw.Draw(image)
    for name, colour, (x, y) in shapes:
        fill = PALETTE[colour]
        if name == "book":
            draw.rectangle((x - 8, y - 8, x + 7, y + 7), fill=fill)
        elif name == "sports ball":
            draw.ellipse((x - 8, y - 8, x + 7, y + 7), fill=fill)
        else:
            draw.polygon([(x, y - 8), (x + 8, y), (x, y + 8), (x - 8, y)], fill=fill)
    return image
