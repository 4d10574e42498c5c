"""Noise runs: module outputs multiplied by 1 + epsilon * u."""
