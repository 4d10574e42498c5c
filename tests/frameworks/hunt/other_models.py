"""Models that are no language models of one stack: recurrent, convolutional, with two stacks, with
complex or sparse parameters. Each makes a model, and the loss of a micro-batch from a generator."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WORDS = 60


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def whole(generator, below, *shape):
    return torch.randint(1, below, shape, generator=generator)


def square(output):
    return output.square().mean()


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.batch_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.group_norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        inner = F.relu(self.batch_norm(self.first(x)))
        return F.relu(x + self.group_norm(self.second(inner)))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.layers = kind(16, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, WORDS)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(ids), lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)
        return self.head(hidden)


class Bags(nn.Module):
    """With sparse gradients."""

    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(WORDS, 16, mode="sum", sparse=True)
        self.head = nn.Linear(16, 1)

    def forward(self, ids, starts):
        return self.head(self.bags(ids, starts))


class Spectrum(nn.Module):
    """With a complex parameter."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.filter = nn.Parameter(0.1 * torch.randn(8, 8, 5, dtype=torch.cfloat))
        self.last = nn.Conv1d(8, 1, 1)

    def forward(self, x):
        waves = torch.fft.rfft(self.first(x))
        kept = torch.einsum("bix,iox->box", waves[..., :5], self.filter)
        return self.last(F.gelu(torch.fft.irfft(kept, n=x.shape[-1])))


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = {"dim_feedforward": 32, "dropout": 0.0, "batch_first": True}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, **sizes), 2)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, **sizes), 1)

    def forward(self, x, y, padding):
        memory = self.encoder(x, src_key_padding_mask=padding)
        return self.decoder(y, memory, memory_key_padding_mask=padding)


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(3)
        )
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = x.requires_grad_()
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True)
        return self.head(x)


class Shared(nn.Module):
    """One layer that runs twice, and one that never does."""

    def __init__(self):
        super().__init__()
        layer = nn.Linear(8, 8)
        self.layers = nn.ModuleList([layer, nn.Linear(8, 8), layer])
        self.unused = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


class Parts(NamedTuple):
    main: torch.Tensor
    more: dict


class Nested(nn.Module):
    """Gives and takes dictionaries, lists and named tuples."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, given, *, scale):
            y = scale * self.layer(given["x"])
            return Parts(y, {"powers": [y * y, y.sum()], "places": given["places"] + 1})

    def __init__(self):
        super().__init__()
        self.inner = Nested.Inner()
        self.head = nn.Linear(8, 2)

    def forward(self, given):
        parts = self.inner(given, scale=2)
        squares, total = parts.more["powers"]
        return self.head(parts.main + squares) + 1e-3 * total


def convolutional():
    layers = [nn.Conv2d(3, 8, 3), Block(8), nn.MaxPool2d(2), Block(8), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 10))


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def recurrent_loss(model, generator):
    return square(model(whole(generator, WORDS, 3, 9), torch.tensor([9, 5, 7])))


def image_loss(model, generator):
    images = normal(generator, 4, 3, 16, 16)
    return F.cross_entropy(model(images), whole(generator, 10, 4))


def translation_loss(model, generator):
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    return square(model(normal(generator, 3, 7, 16), normal(generator, 3, 5, 16), padding))


def penalised_loss(model, generator):
    """With the penalty of a gradient's norm, as critics have it."""
    x = normal(generator, 5, 8).requires_grad_()
    output = model(x)
    (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    return output.mean() + (slope.norm(dim=1) - 1).square().mean()


def vector_loss(model, generator):
    return square(model(normal(generator, 5, 8).to(next(model.parameters()).dtype)))


def nested_loss(model, generator):
    return square(model({"x": normal(generator, 5, 8), "places": torch.arange(5)}))


# Name -> makes the model, makes the loss.
MODELS = {
    "convolutional": (convolutional, image_loss),
    "lstm": (lambda: Recurrent(nn.LSTM), recurrent_loss),
    "gru": (lambda: Recurrent(nn.GRU), recurrent_loss),
    "bags": (Bags, lambda m, g: square(m(whole(g, WORDS, 12), torch.tensor([0, 3, 7])))),
    "spectrum": (Spectrum, lambda m, g: square(m(normal(g, 3, 1, 32)))),
    "encoder_decoder": (EncoderDecoder, translation_loss),
    "penalised": (perceptron, penalised_loss),
    "recomputed": (Recomputed, vector_loss),
    "shared": (Shared, vector_loss),
    "nested": (Nested, nested_loss),
    "double": (lambda: perceptron().double(), vector_loss),
    "perceptron": (perceptron, vector_loss),
}


def word_batch(generator):
    ids = whole(generator, WORDS, 2, 12)
    return {"input_ids": ids, "labels": ids}


def image_batch(generator):
    return {
        "pixel_values": normal(generator, 2, 3, 16, 16),
        "labels": whole(generator, 5, 2),
    }


def spectrogram_batch(generator):
    return {
        "input_features": normal(generator, 2, 8, 32),
        "labels": whole(generator, WORDS, 2, 6),
    }


def wave_batch(generator):
    return {"input_values": normal(generator, 2, 400), "labels": whole(generator, 32, 2, 5)}


BATCHES = {
    "words": word_batch,
    "images": image_batch,
    "spectrograms": spectrogram_batch,
    "waves": wave_batch,
}
