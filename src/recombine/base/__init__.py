"""What all else stands on: refusals, registries, files, and doors to what is optional."""
