"""What each placement leaves to a coordinate: pure functions, one file for each way of cutting.

Ranges are (start, length) pairs of indices into what the earlier axes left, one after the other in
local order. Errors name the numbers; whoever calls adds the tensor and the axis.
"""
