"""Why do heads draft badly? Walks the known causes in order and names the first that holds."""
