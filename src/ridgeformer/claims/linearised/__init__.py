"""Claims about linearised attention and its tangent kernel (the linearized-attention study)."""
