"""What everything else stands on: refusals, registries, files, and the doors to what is optional."""
