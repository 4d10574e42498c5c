"""Rank files, the thread that writes them, and the manifest that merges them."""
