"""Recombine: will a model be right on combinations of factors that it has never seen?"""

__version__ = "0.1.0"
