"""A language model of letters by recurrence: an LSTM of two layers learns the English of this repository's pages.

    python examples/lstm.py

The state goes from one stretch of text to the next, without its history. Start reading at `Model`.
"""

import argparse
import pathlib
import time

import adjoint as ad
from adjoint import nn, optim

F = nn.functional
LENGTH, WIDTH, LAYERS, BATCH = 48, 128, 2, 16
TEXT = "\n".join(
    file.read_text(encoding="utf-8")
    for file in sorted((pathlib.Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
    if file.name not in ("coverage.md", "reference.md")
)
LETTERS = [chr(c) for c in range(32, 127)] + ["\n"]
NUMBER_OF = {letter: i for i, letter in enumerate(LETTERS)}


class Model(nn.Module):
    """The chances of each next letter, as logits, and the state after the last one."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.output = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, letters, state=None):
        y, state = self.lstm(self.embedding(letters), state)
        return self.output(y), state


def make_optimizer(model):
    return optim.Adam(model.parameters(), lr=5e-3)


def make_batches(count):
    """Pairs (letters, the next ones): each row goes on where it ended in the batch before."""
    text = ad.tensor([NUMBER_OF[c] for c in TEXT if c in NUMBER_OF])
    rows = text[: (text.shape[0] - 1) // BATCH * BATCH].view(BATCH, -1)
    for i in range(count):
        start = i * LENGTH % (rows.shape[1] - LENGTH - 1)
        cut = rows[:, start : start + LENGTH + 1]
        yield cut[:, :-1], cut[:, 1:]


def loss_of(model, batch):
    letters, following = batch
    # The state of the batch before is kept on the model: what came before is the same text, whoever asks.
    logits, state = model(letters, getattr(model, "state", None))
    model.state = tuple(s.detach() for s in state)
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def continued(model, start, count):
    """The text, and as many letters more, drawn by their chances."""
    letters, state = [NUMBER_OF[c] for c in start], None
    given = letters
    with ad.no_grad():
        for _ in range(count):
            logits, state = model(ad.tensor([given]), state)
            given = [int(ad.multinomial(F.softmax(logits[0, -1] / 0.8, dim=0), 1))]
            letters = letters + given
    return "".join(LETTERS[i] for i in letters)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    model = Model()
    optimizer = make_optimizer(model)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(TEXT):,} letters")
    start, losses = time.perf_counter(), []
    for step, batch in enumerate(make_batches(12 if options.short else options.steps)):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 49:
            print(f"step {step + 1}  loss {sum(losses[-50:]) / 50:.3f}")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {time.perf_counter() - start:.1f} s")
    print(continued(model, "A tensor is ", 20 if options.short else 200))


if __name__ == "__main__":
    main()
