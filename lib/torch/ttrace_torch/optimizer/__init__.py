"""The optimizer: its steps, its settings and its state."""
