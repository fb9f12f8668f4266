"""Models that see: detectors, CLIP, Inception, question answering. Each is loaded whole or refused."""
