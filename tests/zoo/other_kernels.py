"""Networks with convolutions, whose candidates compute with other kernels than the reference.

Usage: python -m zoo.other_kernels [--device cuda] [--only NETWORK]... [--at-once N] [--plain]

Each network is trained once, in three noise runs, healthy with every set of other kernels, and with
two faults; `ttrace compare` with three noise runs, with one and with none says whether it is
accused. --plain: noise runs keep the kernels of the reference. Exits with 1 if a healthy run is
accused, with 3 if a run could not be trained. A fault that passes is counted and is no failure: the
rounding of such a network may hide it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import transformers as T
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt
from ttrace_torch import traced_steps

IMAGES, SIDE, CLASSES = 8, 64, 10
NOISE = 3


def _classifier(configuration: type, model: type, **settings: object) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        return model(configuration(num_labels=CLASSES, **settings))

    return build


def _wav2vec2() -> nn.Module:
    small = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4}
    dropouts = ("hidden", "attention", "activation", "feat_proj", "final")
    return T.Wav2Vec2ForSequenceClassification(
        T.Wav2Vec2Config(
            **small,
            **{f"{of}_dropout": 0.0 for of in dropouts},
            num_hidden_layers=4,
            layerdrop=0.0,
            mask_time_prob=0.0,
            num_labels=CLASSES,
        )
    )


def _block(kind: int, inputs: int, outputs: int) -> list[nn.Module]:
    convolution, norm = {2: (nn.Conv2d, nn.BatchNorm2d), 3: (nn.Conv3d, nn.BatchNorm3d)}[kind]
    return [convolution(inputs, outputs, 3, padding=1), norm(outputs), nn.ReLU()]


def _vgg() -> nn.Module:
    layers: list[nn.Module] = []
    widths = (3, 32, 32, 64, 64, 128, 128, 256, 256)
    for index in range(len(widths) - 1):
        layers += _block(2, widths[index], widths[index + 1])
        if index % 2:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, CLASSES))


def _volumes() -> nn.Module:
    layers = [nn.Unflatten(1, (3, 1)), *_block(3, 3, 16), *_block(3, 16, 32), *_block(3, 32, 32)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, CLASSES))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (3, 24, 48, 96)
        pairs = list(zip(widths, widths[1:], strict=False))
        self.down = nn.ModuleList(nn.Sequential(*_block(2, a, b)) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[:0:-1])
        self.merge = nn.ModuleList(nn.Sequential(*_block(2, 2 * a, a)) for a, _ in pairs[:0:-1])
        self.head = nn.Linear(widths[1], CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for index, down in enumerate(self.down):
            x = down(x)
            if index + 1 < len(self.down):
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return self.head(x.mean((2, 3)))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": _classifier(T.ResNetConfig, T.ResNetForImageClassification),
    "regnet": _classifier(T.RegNetConfig, T.RegNetForImageClassification),
    "mobilenet2": _classifier(T.MobileNetV2Config, T.MobileNetV2ForImageClassification),
    "convnext": _classifier(T.ConvNextConfig, T.ConvNextForImageClassification),
    "wav2vec2": _wav2vec2,
    "vgg": _vgg,
    "unet": UNet,
    "volumes": _volumes,
}

# What other kernels a candidate takes, by device: channels side by side, and settings of a backend.
KERNELS: dict[str, dict[str, tuple[bool, dict[str, bool]]]] = {
    "cpu": {
        "channels last": (True, {}),
        "no oneDNN": (False, {"mkldnn.enabled": False}),
        "both": (True, {"mkldnn.enabled": False}),
    },
    "cuda": {
        "channels last": (True, {}),
        "no cuDNN": (False, {"cudnn.enabled": False}),
        "benchmark": (False, {"cudnn.benchmark": True}),
        "deterministic": (False, {"cudnn.deterministic": True}),
        "both": (True, {"cudnn.benchmark": True}),
    },
}


def _large_epsilon(model: nn.Module) -> None:
    norms = [m for m in model.modules() if isinstance(getattr(m, "eps", None), float)]
    norms[len(norms) // 2].eps *= 100  # type: ignore[operator]


def _wrong_gradient(model: nn.Module) -> None:
    weights = [p for p in model.parameters() if p.dim() > 1]
    weights[-3].register_hook(lambda gradient: gradient * 1.05)


FAULTS = {"epsilon x 100": _large_epsilon, "late gradient x 1.05": _wrong_gradient}


@contextlib.contextmanager
def _set(settings: dict[str, bool]) -> Iterator[None]:
    before = {name: _change(name, value) for name, value in settings.items()}
    try:
        yield
    finally:
        for name, value in before.items():
            _change(name, value)


def _change(name: str, value: bool) -> bool:
    """Sets a member of a backend; returns what it was."""
    backend, member = name.split(".")
    owner = getattr(torch.backends, backend)
    before: bool = getattr(owner, member)
    if backend == "mkldnn":
        owner.set_flags(value)
    else:
        setattr(owner, member, value)
    return before


def train(
    network: str,
    path: Path,
    device: str,
    *,
    last: bool = False,
    settings: dict[str, bool] | None = None,
    seed: int | None = None,
    plain: bool = False,
    plant: Callable[[nn.Module], None] = lambda model: None,
) -> None:
    """Writes one traced step. plain: a noise run that keeps the kernels of the reference."""
    if plain:
        traced_steps.other_kernels = contextlib.nullcontext  # type: ignore[assignment]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = NETWORKS[network]().train().to(device)
    sound = network == "wav2vec2"
    inputs = torch.randn(IMAGES, 8000) if sound else torch.randn(IMAGES, 3, SIDE, SIDE)
    inputs, labels = inputs.to(device), torch.arange(IMAGES, device=device)
    if last and not sound:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        if network != "volumes":
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    perturb = None if seed is None else tt.Perturb(seed)
    with _set(settings or {}):
        tracer = tt.trace(model, optimizer, out=path, perturb=perturb)
        with tracer.step(0):
            scores = model(inputs)
            scores = getattr(scores, "logits", scores)
            tracer.loss(nn.functional.cross_entropy(scores, labels)).backward()
            optimizer.step()
        tracer.close()


def _in_process(*arguments: object, **options: object) -> int:
    """The exit code of the process: negative where a signal ended it."""
    process = multiprocessing.get_context("forkserver").Process(
        target=train, args=arguments, kwargs=options
    )
    process.start()
    process.join()
    return process.exitcode or 0


def tried(network: str, device: str, plain: bool, tf32: bool) -> list[dict[str, object]]:
    """A record for each candidate: its name, and the exit code of `compare` and the worst share of
    what is allowed with three noise runs, one, and none."""
    base = {"cudnn.allow_tf32": tf32} if device == "cuda" else {}
    with tempfile.TemporaryDirectory(prefix="ttrace-kernels-") as name:
        folder = Path(name)

        def run(file: str, **options: object) -> int:
            given = {**base, **options.pop("settings", {})}  # type: ignore[dict-item]
            return _in_process(network, folder / file, device, settings=given, **options)

        exits = [run("reference.h5")]
        exits += [run(f"noise{n}.h5", seed=n, plain=plain) for n in range(1, NOISE + 1)]
        if any(exits):
            lost = {"candidate": "reference", "codes": None, "exits": exits}
            return [{"network": network, "tf32": tf32, **lost}]
        records = []
        candidates: dict[str, dict[str, object]] = {
            name: {"last": last, "settings": settings}
            for name, (last, settings) in KERNELS[device].items()
        }
        candidates |= {name: {"plant": plant} for name, plant in FAULTS.items()}
        for candidate, options in candidates.items():
            record: dict[str, object] = {
                "network": network,
                "tf32": tf32,
                "candidate": candidate,
                "codes": None,
            }
            exit_code = run("run.h5", **options)
            if exit_code != 0:
                record["exits"] = [exit_code]
            else:
                answers = [_compared(folder, count) for count in (NOISE, 1, 0)]
                record.update(
                    codes=[code for code, _, _ in answers],
                    worst=[worst for _, worst, _ in answers],
                    line=answers[0][2],
                )
                codes = [code for code, _, _ in answers]
                if candidate not in FAULTS and 1 in codes:
                    record["explained"] = _explained(folder, codes)
            records.append(record)
            print(json.dumps(record), flush=True)
        return records


def _compared(folder: Path, noise: int) -> tuple[int, float | None, str]:
    report = folder / "report.json"
    done = run_ttrace("compare", *_runs(folder, noise), "--json", report)
    written = json.loads(report.read_text(encoding="utf-8"))
    closest = (written.get("closest") or {}).get("used")
    return done.returncode, closest, done.stdout.splitlines()[0]


def _explained(folder: Path, codes: list[int]) -> str:
    noise = (NOISE, 1, 0)[codes.index(1)]
    return run_ttrace("compare", *_runs(folder, noise), "--explain", "1").stdout


def _runs(folder: Path, noise: int) -> list[object]:
    perturbed = [folder / f"noise{seed}.h5" for seed in range(1, noise + 1)]
    given = [argument for path in perturbed for argument in ("--noise", path)]
    return [folder / "reference.h5", folder / "run.h5", *given]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=sorted(KERNELS))
    parser.add_argument("--only", action="append", choices=sorted(NETWORKS))
    parser.add_argument("--at-once", type=int, default=2, help="how many networks at a time")
    parser.add_argument("--plain", action="store_true", help="noise runs keep the kernels")
    args = parser.parse_args()
    multiprocessing.get_context("forkserver").set_forkserver_preload(["zoo.other_kernels"])
    precisions = (True, False) if args.device == "cuda" else (False,)
    rows = [(name, tf32) for name in args.only or NETWORKS for tf32 in precisions]
    with ThreadPoolExecutor(args.at_once) as pool:
        records = [
            record
            for some in pool.map(lambda row: tried(row[0], args.device, args.plain, row[1]), rows)
            for record in some
        ]
    return told(records)


def told(records: list[dict[str, object]]) -> int:
    """Prints the counts; the exit code."""
    lost = [r for r in records if r["codes"] is None]
    done = [r for r in records if r["codes"] is not None]
    healthy = [r for r in done if r["candidate"] not in FAULTS]
    faulty = [r for r in done if r["candidate"] in FAULTS]
    for place, how in enumerate((f"{NOISE} noise runs", "one", "none")):
        codes = [r["codes"][place] for r in healthy]  # type: ignore[index]
        found = [r["codes"][place] for r in faulty]  # type: ignore[index]
        print(
            f"with {how}: of {len(healthy)} healthy runs {codes.count(1)} accused and"
            f" {codes.count(3)} inconclusive; of {len(faulty)} faults {found.count(1)} found and"
            f" {found.count(3)} inconclusive"
        )
    if lost:
        named = [(r["network"], r["candidate"], r["exits"]) for r in lost]
        print(f"not trained, with the exit codes of their processes: {named}")
    accused = any(1 in r["codes"] for r in healthy)  # type: ignore[operator]
    return 1 if accused else 3 if lost or not healthy else 0


if __name__ == "__main__":
    sys.exit(main())
