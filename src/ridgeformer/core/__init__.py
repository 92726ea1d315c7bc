"""What every other package may use: errors, input checks, seeds, memory, reading files, statistics."""
