"""Comparing tensors that are in memory, through libttrace."""
