"""The mesh: ranks are row-major, the innermost axis runs fastest."""

from gallery.parallel import ProcessMesh, lines


def test_lines_of_a_mesh_of_three_axes() -> None:
    sizes = {"pp": 2, "dp": 2, "tp": 3}
    assert lines(sizes, "tp") == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert lines(sizes, "dp") == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]
    assert lines(sizes, "pp") == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]


def test_coordinates_of_a_rank() -> None:
    mesh = ProcessMesh({"pp": 2, "dp": 2, "tp": 3}, rank=10)
    assert [(axis.name, axis.size, axis.index) for axis in mesh] == [
        ("pp", 2, 1),
        ("dp", 2, 1),
        ("tp", 3, 1),
    ]
