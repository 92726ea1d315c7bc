"""The language of compiled transformers: roles, channels, expressions, programs, and their reference interpreter."""
