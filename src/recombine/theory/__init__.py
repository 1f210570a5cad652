"""Theory: exact answers in NumPy float64, one file a family; never imports torch."""
