"""A language model of letters: a small GPT, after Karpathy's nanoGPT, learns the English of this repository's pages.

    python examples/gpt.py

Blocks of attention and two linear layers, each added to its input; the embedding of letters is the last layer, too. Start
reading at `Model`.
"""

import argparse
import math
import pathlib
import time

import adjoint as ad
from adjoint import nn, optim

F = nn.functional
LENGTH, WIDTH, HEADS, BLOCKS, BATCH = 64, 96, 4, 3, 24
TEXT = "\n".join(
    file.read_text(encoding="utf-8")
    for file in sorted((pathlib.Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
    if file.name not in ("coverage.md", "reference.md")
)
LETTERS = [chr(c) for c in range(32, 127)] + ["\n"]
NUMBER_OF = {letter: i for i, letter in enumerate(LETTERS)}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.c_attn(x).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    """The chances of each next letter, as logits."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, len(LETTERS), bias=False)
        self.wte.weight = self.lm_head.weight
        for name, p in self.named_parameters():
            if p.dim() > 1:
                # What is added to the stream of blocks starts small.
                deviation = 0.02 / math.sqrt(2 * BLOCKS) if name.endswith("c_proj.weight") else 0.02
                nn.init.normal_(p, std=deviation)

    def forward(self, letters):
        x = self.wte(letters) + self.wpe(ad.arange(letters.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def make_optimizer(model):
    return optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)


def make_batches(count):
    """Pairs (letters, the next ones), at random places of the text."""
    text = ad.tensor([NUMBER_OF[c] for c in TEXT if c in NUMBER_OF])
    for _ in range(count):
        starts = ad.randint(0, text.shape[0] - LENGTH - 1, (BATCH, 1))
        cut = text[starts + ad.arange(LENGTH + 1)]
        yield cut[:, :-1], cut[:, 1:]


def loss_of(model, batch):
    letters, following = batch
    return F.cross_entropy(model(letters).flatten(0, 1), following.flatten())


def continued(model, start, count):
    """The text, and as many letters more, drawn by their chances."""
    letters = [NUMBER_OF[c] for c in start]
    with ad.no_grad():
        for _ in range(count):
            logits = model(ad.tensor([letters[-LENGTH:]]))[0, -1]
            letters.append(int(ad.multinomial(F.softmax(logits / 0.8, dim=0), 1)))
    return "".join(LETTERS[i] for i in letters)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    steps = 12 if options.short else options.steps
    ad.manual_seed(0)
    model = Model()
    optimizer = make_optimizer(model)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(TEXT):,} letters")
    start, losses = time.perf_counter(), []
    for step, batch in enumerate(make_batches(steps)):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 49:
            print(f"step {step + 1}  loss {sum(losses[-50:]) / 50:.3f}")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {time.perf_counter() - start:.1f} s")
    print(continued(model, "A tensor is ", 20 if options.short else 200))


if __name__ == "__main__":
    main()
