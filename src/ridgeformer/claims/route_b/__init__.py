"""Claims about linear attention and conjugate gradients, route B (section 3 of the theoretical analysis)."""
