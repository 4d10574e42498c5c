"""A study of the tolerances: what `ttrace compare` says of healthy runs, and what it would miss.

`rows.py` and `framework_rows.py` are the grid, as data. `study.py` traces and compares it; its raw
results are lines of JSON, of which `results.py` makes RESULTS.md and `picture.py` a picture.
Run by scripts/power_study.sh.
"""
