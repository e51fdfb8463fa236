"""A tiny causal transformer on made-up tokens, set up by a configuration file."""

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Decoder(nn.Module):
    def __init__(self, vocab: int, hidden: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.places = nn.Embedding(length, hidden)
        block = nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        hidden = self.tokens(ids) + self.places(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.blocks(hidden, mask=mask, is_causal=True))


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    torch.manual_seed(config.get("seed", 42))
    length = config["max_seq_length"]
    ids = torch.randint(0, config["vocab_size"], (config["train_samples"], length))
    loader = DataLoader(TensorDataset(ids), batch_size=config["per_device_train_batch_size"], shuffle=True)
    model = Decoder(
        config["vocab_size"], config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"], length
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    step, began = 0, time.time()
    for epoch in range(config["num_train_epochs"]):
        for (batch,) in loader:
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % config.get("logging_steps", 10) == 0:
                print({"loss": round(loss.item(), 4), "epoch": epoch, "step": step}, flush=True)
    print({"train_runtime": round(time.time() - began, 2), "train_steps": step})


if __name__ == "__main__":
    main()
