"""A small convolutional network on made-up images, for a number of steps."""

import argparse

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Noise with a bright patch; the label is the quadrant that it is in."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, half, label = torch.rand(3, self.size, self.size), self.size // 2, index % 4
        image[:, label // 2 * half : label // 2 * half + half, label % 2 * half : label % 2 * half + half] += 0.5
        return image, label


class Net(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * channels, 4 * channels, 3, padding=1)
        self.head = nn.Linear(4 * channels, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.conv3(x))
        return self.head(x.mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    opt = parser.parse_args()

    torch.set_num_threads(1)
    model = Net(opt.channels)
    sgd = torch.optim.SGD(model.parameters(), lr=opt.lr, momentum=0.9)
    loader = DataLoader(Shapes(1_000_000, opt.image_size), batch_size=opt.batch)
    for step, (images, labels) in enumerate(loader, start=1):
        loss = functional.cross_entropy(model(images), labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        if step % 20 == 0:
            print(f"step {step}/{opt.max_steps} loss {loss.item():.4f}", flush=True)
        if step >= opt.max_steps:
            break


if __name__ == "__main__":
    main()
