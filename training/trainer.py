"""Training: in-batch contrast between questions and tools, seeded and resumable."""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from toolscript.retrieval.semantic.document_text import TEXT_WEIGHTS, embedding_inputs
from toolscript.types import Document
from training.batches import batches
from training.data import Question, TrainingData
from training.encoder import Encoder

SAVE_EVERY = 50
"""Steps between two states on the disk, from which an interrupted training goes on."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a training does; the bundled model's is the default."""

    epochs: int = 1
    batch: int = 64
    siblings: int = 8
    """Questions about one server that stand together in a batch."""
    everyday: int = 2
    """So many times an epoch asks each everyday sentence: they are few."""
    most_steps: int = 400
    """The training ends after so many steps, while the learning rate still falls as if it went on
    to the end of the last epoch."""
    learning_rate: float = 5e-5
    warm_up: float = 0.1
    """The share of the steps in which the learning rate rises; it then falls to zero."""
    temperature: float = 0.05
    max_tokens: int = 128
    weight_decay: float = 0.01
    share: float = 0.7
    """The share of the trained weights in the mean with the published ones (Wortsman et al. 2022,
    arXiv:2109.01903): what the model knew of other texts stays."""
    seed: int = 0


class Trainer:
    """One training; `run` goes on where the last one on the same folder ended.

    Args:
        encoder: The model with the weights to begin from.
        data: The tools and the questions.
        recipe: How it is trained.
        folder: Where the state is kept.
    """

    def __init__(self, encoder: Encoder, data: TrainingData, recipe: Recipe, folder: Path) -> None:
        self._encoder = encoder
        self._tools = data.tools
        self._recipe = recipe
        self._state = folder / "state.pt"
        # Without dropout: it costs a sixth of the time, and few steps overfit nothing.
        encoder.eval()
        self._same = _same_texts(data.tools)
        questions = [
            question
            for question in data.questions
            for _ in range(recipe.everyday if question.is_everyday else 1)
        ]
        self._batches = [
            batch
            for epoch in range(recipe.epochs)
            for batch in batches(questions, recipe.batch, recipe.siblings, recipe.seed + epoch)
        ]
        self._optimiser = torch.optim.AdamW(
            encoder.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )

    @property
    def steps(self) -> int:
        """How many steps the training has."""
        return min(len(self._batches), self._recipe.most_steps)

    def run(self, progress: Callable[[int, float], None]) -> None:
        """Train to the end; ``progress`` gets the number of steps done and the loss."""
        for number in range(self._resume(), self.steps):
            loss = self._step(number)
            progress(number + 1, loss)
            if (number + 1) % SAVE_EVERY == 0:
                self._save(number + 1)

    def _step(self, number: int) -> float:
        recipe, batch = self._recipe, self._batches[number]
        choice = random.Random(f"{recipe.seed}/{number}")  # noqa: S311 - the same texts every time
        tools = [choice.choice(question.relevant) for question in batch]
        for group in self._optimiser.param_groups:
            group["lr"] = recipe.learning_rate * self._rate(number)
        device = self._encoder.bert.device.type
        with torch.autocast(device, torch.bfloat16, enabled=_computes_bfloat16(device)):
            asked, offered = self._vectors([question.text for question in batch], tools)
        loss = self._loss(batch, tools, asked, offered)
        self._optimiser.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        torch.nn.utils.clip_grad_norm_(self._encoder.parameters(), 1.0)
        self._optimiser.step()
        return float(loss.detach())

    def _loss(
        self, batch: Sequence[Question], tools: list[int], asked: Tensor, offered: Tensor
    ) -> Tensor:
        """InfoNCE from questions to tools and back; other right tools do not count as wrong."""
        right = [{self._same[tool] for tool in question.relevant} for question in batch]
        mask = torch.tensor(
            [
                [
                    self._same[tool] in right[row] and row != place
                    for place, tool in enumerate(tools)
                ]
                for row in range(len(batch))
            ],
            device=asked.device,
        )
        scores = (asked @ offered.T / self._recipe.temperature).masked_fill(mask, -1e4)
        answers = torch.arange(len(batch), device=asked.device)
        forth = functional.cross_entropy(scores, answers)
        return (forth + functional.cross_entropy(scores.T, answers)) / 2

    def _vectors(self, questions: list[str], tools: list[int]) -> tuple[Tensor, Tensor]:
        """Returns the vectors of questions and of tools: float32 [n, dim] each, unit rows.

        A tool's is made as the engine makes it: see `document_vectors`.
        """
        texts = [embedding_inputs(self._tools[tool]) for tool in tools]
        parts = [each[name] for name in TEXT_WEIGHTS for each in texts]
        vectors = self._encoder(questions + parts)
        offered = vectors[len(questions) :].reshape(len(TEXT_WEIGHTS), len(tools), -1)
        weights = torch.tensor(list(TEXT_WEIGHTS.values()), device=vectors.device)
        mean = (weights[:, None, None] * offered).sum(dim=0)
        return vectors[: len(questions)], functional.normalize(mean, dim=1)

    def _rate(self, number: int) -> float:
        steps = len(self._batches)
        rising = max(1, round(self._recipe.warm_up * steps))
        return min((number + 1) / rising, (steps - number) / max(1, steps - rising))

    def _save(self, done: int) -> None:
        state = {
            "recipe": asdict(self._recipe),
            "done": done,
            "encoder": self._encoder.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        beside = self._state.with_suffix(".new")
        torch.save(state, beside)
        beside.replace(self._state)

    def _resume(self) -> int:
        """The number of steps that are done already."""
        if not self._state.is_file():
            return 0
        state: dict[str, Any] = torch.load(self._state, weights_only=True)
        if state["recipe"] != asdict(self._recipe):
            return 0
        self._encoder.load_state_dict(state["encoder"])
        self._optimiser.load_state_dict(state["optimiser"])
        return int(state["done"])


def _computes_bfloat16(device: str) -> bool:
    """Whether a device has instructions for bfloat16; without them it takes twice the time."""
    return device != "cpu" or torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - PyTorch has no other name for it


def _same_texts(tools: Sequence[Document]) -> list[int]:
    """For each tool the number of the first one with the same name and description."""
    first: dict[tuple[str, str], int] = {}
    return [
        first.setdefault((tool.name, tool.description), number) for number, tool in enumerate(tools)
    ]
