"""Rewritten runs: a plan overwrites inputs and output gradients of modules."""
