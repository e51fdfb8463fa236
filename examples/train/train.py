"""A small image classifier, as people write them."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="resnet18")
    parser.add_argument("--data", default="/data/cifar10")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--save", default="")
    return parser.parse_args()


def main():
    args = parse_args()
    model = models.__dict__[args.arch](num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler(enabled=args.amp)
    data = datasets.CIFAR10(args.data, train=True, transform=transforms.ToTensor())
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=4)
    for epoch in range(args.epochs):
        for images, labels in loader:
            with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print(f"epoch {epoch + 1}/{args.epochs} loss={loss.item():.4f}")
        if args.save:
            torch.save(model.state_dict(), f"{args.save}/epoch{epoch}.pt")


if __name__ == "__main__":
    main()
