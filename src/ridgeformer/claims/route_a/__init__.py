"""Claims about softmax attention, route A (section 1 of the theoretical analysis, and the softmax-route note)."""
