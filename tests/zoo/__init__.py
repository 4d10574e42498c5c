"""The study `scripts/zoo.sh`: every architecture of transformers, in miniature, audited."""
