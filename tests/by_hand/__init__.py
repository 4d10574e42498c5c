"""A trainer with collectives of its own, as the page "Sharded by hand" shows it."""
