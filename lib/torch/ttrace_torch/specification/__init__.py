"""The specification of a step: from which recorded tensors every other one follows, and how."""
