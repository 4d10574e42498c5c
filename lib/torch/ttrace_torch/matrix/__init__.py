"""Many layouts of one model, each trained for a step and held against one process.

`ttrace_torch.testing.assert_equivalent` is the door for pytest, `python -m ttrace_torch.matrix` the
command.
"""
