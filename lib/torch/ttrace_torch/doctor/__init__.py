"""Looks at a training script before it is traced: which lines it lacks, and what would spoil it."""
