"""Options of the decoders with trained drafters other than the spatial heads."""
