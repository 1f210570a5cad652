"""Benchmarks: what the package promises about speed, measured by `make bench`."""
