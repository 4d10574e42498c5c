"""A miniature distributed trainer that shows real silent bugs by a switch.

`train.py` trains a small GPT with plain `torch.distributed`, on one process or many, from the
same code. Weights and data depend on canonical names and never on the layout, so every layout
computes the same step. `bugs.py` lists the bugs; each lives at the one place in the code where
it lived in the framework it was found in.
"""
