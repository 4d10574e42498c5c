"""Names, element types, micro-batches, nested values and process facts. Imports no other room."""
