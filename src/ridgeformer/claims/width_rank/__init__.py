"""Claims about width and rank: the width-rank note, and section 2 of the theoretical analysis."""
