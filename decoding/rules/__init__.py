"""The tests of speculative decoding: which drafts stay, and what replaces the others."""
