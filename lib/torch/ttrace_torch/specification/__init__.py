"""The specification of a step: which recorded tensors each other one is computed from, and how."""
