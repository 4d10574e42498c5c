"""ZOO.md: the results of the study as tables."""

from __future__ import annotations

import datetime
from collections import Counter
from importlib.metadata import version

from power.store import Record, Store
from power.tables import percent, table

HEAD = """# The zoo: `ttrace audit` on every architecture of transformers

`scripts/zoo.sh RAW.jsonl --write tests/zoo/ZOO.md` makes this page. Every architecture that
transformers registers for causal language models (clm), sequence to sequence (s2s), masked language
models (mlm) and image classification (img) is made small, trained for one step with a specification
and audited. `faulty` is the same step with one fault drawn by a seed (`faults.py`), judged by
the specification of the healthy run. A fault counts as active where it moves an output or gradient
by at least 4 ε of the run's type in binary64. What `--sample` leaves out was drawn by a seed.

A healthy run that is broken with the cause `narrow_accumulator` is no false alarm: PyTorch's kernel
of layer norms on a CPU adds up gradients of weights and biases in bf16. Nor is one in a batch norm
in bf16: its kernel keeps the factor and the term of each channel in bf16
(`tests/frameworks/found/torch_batch_norm_bf16.py`), the loss of funnel, whose log softmax keeps its
sum in bf16 (`torch_log_softmax_bf16.py` there), nor, on a CPU that multiplies bf16 itself, the
convolutions of pvt, pvt_v2 and segformer, whose kernel returns other numbers
(`torch_convolution_bf16.py`).
"""


def text(store: Store, architectures: list[tuple[str, str]]) -> str:
    """The page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    tried = {
        run: [(f"{k}/{t}", store.records.get(f"{run}/{k}/{t}")) for k, t in architectures]
        for run in ("healthy", "bf16", "faulty")
    }
    parts = [
        HEAD,
        f"Made on {datetime.date.today()} with {versions}, on a CPU.\n",
        _builds(store),
        "## Healthy runs\n",
        table(
            [
                *("run", "of", "tried", "ran", "broken", "every tensor judged"),
                *("or some below their bound", "every raw gradient judged"),
            ],
            [_healthy(run, tried[run]) for run in ("healthy", "bf16")],
        ),
        _broken(tried),
        "## Faults\n",
        _faulty(tried["faulty"]),
        "## What leaves tensors unjudged in healthy runs\n",
        _reasons(tried["healthy"]),
        "## What did not run\n",
        _failures(tried["healthy"]),
    ]
    return "\n".join(parts)


def _builds(store: Store) -> str:
    """Which build the results are of; ROWS.jsonl says it of each."""
    counts = Counter(str(record.get("build") or "unknown") for record in store.records.values())
    return "Results by build: " + ", ".join(f"{b} {n}" for b, n in counts.most_common()) + ".\n"


Tried = list[tuple[str, "Record | None"]]


def _ran(tried: Tried) -> list[tuple[str, Record]]:
    return [(name, record) for name, record in tried if record and "exit_code" in record]


def whole(record: Record) -> bool:
    """Whether every tensor was judged."""
    return record["coverage"]["judged"] == record["coverage"]["tensors"]


def gradients_whole(record: Record) -> bool:
    """Whether the gradient of every parameter was judged."""
    gradients = record["coverage"].get("gradients")
    return not gradients or gradients["judged"] == gradients["parameters"]


def _healthy(run: str, tried: Tried) -> list[str]:
    ran = _ran(tried)
    judged = sum(whole(record) for _, record in ran)
    expressed = sum(not record["coverage"]["not_judged"] for _, record in ran)
    gradients = sum(gradients_whole(record) for _, record in ran)
    return [
        "fp32" if run == "healthy" else run,
        str(len(tried)),
        str(sum(record is not None for _, record in tried)),
        str(len(ran)),
        str(sum(record["exit_code"] == 1 for _, record in ran)),
        f"{judged} ({percent(judged, len(ran))})" if ran else "–",
        f"{expressed} ({percent(expressed, len(ran))})" if ran else "–",
        f"{gradients} ({percent(gradients, len(ran))})" if ran else "–",
    ]


def _broken(tried: dict[str, Tried]) -> str:
    lines = [
        f"- {name} ({run}): {', '.join(f'`{one}`' for one in record['findings'])}"
        + "".join(f"; cause `{cause}`" for cause in record.get("causes", []))
        for run in ("healthy", "bf16")
        for name, record in _ran(tried[run])
        if record["exit_code"] == 1
    ]
    return "\nBroken while healthy:\n\n" + ("\n".join(lines) or "None.") + "\n"


def found_at(record: Record) -> bool:
    """Whether the first finding is of the module with the fault, or of what is in it."""
    first = record["findings"][0] if record["findings"] else ""
    return record["module"] in first or first.startswith(record["module"])


def _faulty(tried: Tried) -> str:
    ran = _ran(tried)
    if not ran:
        return "Not tried.\n"
    active = [(n, r) for n, r in ran if r.get("moves") is None or r["moves"] >= 4]
    rows = []
    for fault in sorted({r["fault"] for _, r in active}):
        mine = [r for _, r in active if r["fault"] == fault]
        found = [r for r in mine if r["exit_code"] == 1]
        rows.append([fault, str(len(mine)), str(len(found)), str(sum(map(found_at, found)))])
    missed = [
        f"- {name}: {r['fault']} in `{r['module']}` (moves {_epsilons(r)}), exit {r['exit_code']}"
        for name, r in active
        if r["exit_code"] != 1
    ]
    elsewhere = [
        f"- {name}: {r['fault']} in `{r['module']}`, first `{r['findings'][0]}`"
        for name, r in active
        if r["exit_code"] == 1 and not found_at(r)
    ]
    return (
        f"Tried on {sum(record is not None for _, record in tried)} of {len(tried)} architectures."
        f" {len(ran) - len(active)} of {len(ran)} faults are not active.\n\n"
        + table(["fault", "active", "found", "right module first"], rows)
        + "\n\nNot found:\n\n"
        + ("\n".join(missed) or "None.")
        + "\n\nFound elsewhere first:\n\n"
        + ("\n".join(elsewhere) or "None.")
        + "\n"
    )


def _epsilons(record: Record) -> str:
    moves = record.get("moves")
    return "unknown" if moves is None else f"{moves:.3g} ε"


def _reasons(tried: Tried) -> str:
    tensors: Counter[str] = Counter()
    models: Counter[str] = Counter()
    for _, record in _ran(tried):
        for reason, count in record["coverage"]["not_judged"].items():
            tensors[reason] += count
            models[reason] += 1
    rows = [[reason, str(count), str(models[reason])] for reason, count in tensors.most_common()]
    return table(["reason", "tensors", "architectures"], rows) + "\n" if rows else "Nothing.\n"


def _failures(tried: Tried) -> str:
    lines = [
        f"- {name}: {record['state']}: {' '.join(str(record.get('why', '')).split())[:160]}"
        for name, record in tried
        if record and "exit_code" not in record
    ]
    missing = [name for name, record in tried if record is None]
    if missing:
        lines.append(f"- not tried: {', '.join(missing)}")
    return ("\n".join(lines) or "Everything ran.") + "\n"
