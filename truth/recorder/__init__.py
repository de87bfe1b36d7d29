"""Records the memory of a training step; see truth/README.md."""
