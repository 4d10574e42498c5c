"""Random tensors that are equal in every layout: Philox, normal numbers, consistent weights."""
