"""What the tests of the source reader share: growing a tree, reading it, and one plain program."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source import analyze
from analyzers.types import JsonValue, SourceFacts, Submission


def grow(root: Path, files: dict[str, str]) -> Path:
    """Write files under ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def read(root: Path, command: str, **request: int) -> SourceFacts:
    """The facts of a tree under a command; fails on a defect of the reader itself."""
    facts = analyze(Submission(command, root, **request))  # type: ignore[arg-type]
    assert not [w for w in facts.warnings if "internal error" in w], facts.warnings
    return facts


def values(facts: SourceFacts, *names: str) -> tuple[JsonValue, ...]:
    """Values of facts asserted with a confidence of 0.5 or more."""
    return tuple(facts.value(name) for name in names)


PLAIN = {
    "net.py": """
import torch.nn as nn
class TinyNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(784, width)
        self.fc2 = nn.Linear(width, 10, bias=False)
    def forward(self, x):
        return self.fc2(self.fc1(x).relu())
""",
    "train.py": """
import argparse, torch
import torchvision
from torch.utils.data import DataLoader
from net import TinyNet

def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=50)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--eval-batch-size", type=int, default=999)
    p.add_argument("--save", action="store_true")
    p.add_argument("--amp", action="store_true")
    return p.parse_args()

def train_one_epoch(model, loader, opt, device):
    for x, y in loader:
        with torch.autocast("cuda", enabled=args.amp):
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()

if __name__ == "__main__":
    args = get_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torchvision.datasets.MNIST("data", train=True)
    test = torchvision.datasets.MNIST("data", train=False)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    other = DataLoader(test, batch_size=args.eval_batch_size)
    model = TinyNet(32).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        train_one_epoch(model, loader, opt, device)
    if args.save:
        torch.save(model.state_dict(), "model.pt")
""",
}


@pytest.fixture
def kit() -> SimpleNamespace:
    """``grow(root, files)``, ``read(root, command)``, ``values(facts, *names)`` and the program ``PLAIN``."""
    return SimpleNamespace(grow=grow, read=read, values=values, PLAIN=PLAIN)
