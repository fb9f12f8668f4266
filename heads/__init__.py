"""The draft heads: which state predicts which, with what function, trained by what loss."""
