"""Shared by all packages: errors, input checks, seeds, memory, file reading, statistics."""
