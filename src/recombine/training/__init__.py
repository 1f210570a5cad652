"""The training loop, ensembles of models, losses, noise and penalties."""
