"""The model that is trained: a BERT encoder whose tokens' mean, at length 1, is a text's vector."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel

CHUNK = 16
"""Texts that run through the encoder together: of like length, so that little is padding."""


class Encoder(torch.nn.Module):
    """Texts to vectors float32 [n, dim], unit rows, as `toolscript.embedding.onnx` computes them.

    Args:
        folder: ``config.json``, ``tokenizer.json`` and ``model.safetensors`` of the model.
        max_tokens: Longer texts are cut.
    """

    def __init__(self, folder: Path, max_tokens: int) -> None:
        super().__init__()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)
        config = BertConfig.from_json_file(folder / "config.json")
        self.bert: Any = BertModel.from_pretrained(
            folder, config=config, add_pooling_layer=False, attn_implementation="sdpa"
        )

    def forward(self, texts: Sequence[str]) -> Tensor:
        """The texts' vectors, in their order."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        parts = [
            self._run([ids[row] for row in order[start : start + CHUNK]])
            for start in range(0, len(order), CHUNK)
        ]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return functional.normalize(torch.cat(parts).float(), dim=1)[back]

    def _run(self, ids: list[list[int]]) -> Tensor:
        width = max(map(len, ids))
        tokens = torch.zeros(len(ids), width, dtype=torch.long)
        mask = torch.zeros(len(ids), width, dtype=torch.long)
        for row, values in enumerate(ids):
            tokens[row, : len(values)] = torch.tensor(values)
            mask[row, : len(values)] = 1
        device = self.bert.device
        tokens, mask = tokens.to(device), mask.to(device)
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(hidden.dtype)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1)

    def mix(self, other: "Encoder", share: float) -> None:
        """Move the weights to ``share`` of these and the rest of the other's."""
        others = other.state_dict()
        mixed = {
            name: share * value + (1 - share) * others[name].to(value)
            if value.is_floating_point()
            else value
            for name, value in self.state_dict().items()
        }
        self.load_state_dict(mixed)

    def save(self, path: Path) -> None:
        """Write the weights with the names that the published file has."""
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().cpu() for name, value in self.bert.state_dict().items()}
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)
