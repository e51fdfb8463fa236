"""Fit a multilayer perceptron to made-up regression data: argparse, DataLoader, a loop over epochs, patience."""

import argparse
from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--patience", type=int, default=0, help="stop after so many epochs without a better loss")
    parser.add_argument("--weights", help="start from this state dict")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    inputs = torch.randn(args.samples, args.features)
    targets = inputs[:, :8].sin().sum(dim=1, keepdim=True) + 0.5 * torch.randn(args.samples, 1)
    held_out = args.samples // 5
    data, valid = random_split(TensorDataset(inputs, targets), [args.samples - held_out, held_out])
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=1024)

    sizes = [args.features] + [args.width] * args.layers
    blocks = [module for a, b in pairwise(sizes) for module in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*blocks, nn.Linear(sizes[-1], 1))
    if args.weights:
        model.load_state_dict(torch.load(args.weights))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.MSELoss()
    best, waited = float("inf"), 0
    for epoch in range(args.epochs):
        model.train()
        for features, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(features), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses = [criterion(model(features), target).item() for features, target in valid_loader]
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch + 1}/{args.epochs} val_loss {mean:.4f}", flush=True)
        best, waited = (mean, 0) if mean < best - 1e-4 else (best, waited + 1)
        if args.patience and waited >= args.patience:
            print("no better loss: stopping early")
            break


if __name__ == "__main__":
    main()
