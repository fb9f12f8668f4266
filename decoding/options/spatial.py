"""Options of the decoders that paint several rows at once without drafts to verify."""
