"""Forecast a made-up series with a recurrent network; constants at the top are overridden by the environment."""

import os

import torch
from torch import nn

EPOCHS = int(os.environ.get("EPOCHS", "6"))
HIDDEN = int(os.environ.get("HIDDEN", "64"))
WINDOW = int(os.environ.get("WINDOW", "48"))
SERIES = int(os.environ.get("SERIES", "2000"))
BATCH_SIZE = 64


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.rnn(x)[0][:, -1])


torch.set_num_threads(1)
torch.manual_seed(0)
phase = torch.rand(SERIES, 1) * 6.28
time = torch.arange(WINDOW + 1) * 0.2
data = (torch.sin(time + phase) + 0.1 * torch.randn(SERIES, WINDOW + 1)).unsqueeze(-1)
model = Forecaster()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for epoch in range(EPOCHS):
    total = 0.0
    for start in range(0, SERIES, BATCH_SIZE):
        batch = data[start : start + BATCH_SIZE]
        loss = nn.functional.mse_loss(model(batch[:, :-1]), batch[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"Epoch [{epoch + 1}/{EPOCHS}] loss={total:.4f}", flush=True)
