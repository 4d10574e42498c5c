"""How a tensor lies on the ranks: meshes, placements, DTensors, and a rank's local layout."""
