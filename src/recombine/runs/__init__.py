"""Runs of experiments: records, the store, sweeps and executors."""
