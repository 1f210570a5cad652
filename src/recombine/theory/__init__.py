"""Theory: exact answers in NumPy float64, one file per family; never imports torch."""
