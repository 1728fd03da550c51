"""Random objects and random changes of them: a match says what a fresh collection says, whatever happens."""

import gc
import random

import pytest
from laid_out import Box, Color, Slots, laid_out

import adjoint as ad

x = ad.tensor([1.0, 2.0])


class Maker:
    """Random objects, and random changes of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pool = []

    def plain(self):
        return self.random.choice(
            (
                0,
                1,
                True,
                False,
                2.5,
                0.0,
                -0.0,
                "a",
                "b",
                b"c",
                None,
                10**30,
                1j,
                (),
                ad.float32,
                range(2),
                Color.RED,
                (1, "a"),
                frozenset((1, 2)),
            )
        )

    def value(self, depth):
        r = self.random
        if self.pool and r.random() < 0.2:
            return r.choice(self.pool)
        kind = r.choice(("plain", "plain", "list", "dict", "object", "tensor", "tuple", "set", "slots"))
        if depth == 0 or kind == "plain":
            return self.plain()
        if kind == "tuple":
            return tuple(self.value(depth - 1) for _ in range(r.randrange(3)))
        if kind == "tensor":
            made = ad.ones(r.randrange(1, 3), requires_grad=r.random() < 0.3)
        elif kind == "set":
            made = {r.randrange(50) for _ in range(r.randrange(4))}
        elif kind == "list":
            made = [self.value(depth - 1) for _ in range(r.randrange(4))]
        elif kind == "dict":
            made = {r.choice("abcdef"): self.value(depth - 1) for _ in range(r.randrange(4))}
        elif kind == "slots":
            made = Slots()
            made.value = self.value(depth - 1)
        else:
            made = Box(**{r.choice("abc"): self.value(depth - 1) for _ in range(r.randrange(3))})
        self.pool.append(made)
        return made

    def change(self):
        """Change something in the pool."""
        r = self.random
        target = r.choice(self.pool)
        if isinstance(target, list):
            do = r.choice(("append", "pop", "set", "clear"))
            if do == "append":
                target.append(self.value(1))
            elif target and do == "pop":
                target.pop(r.randrange(len(target)))
            elif target and do == "set":
                target[r.randrange(len(target))] = self.value(1)
            elif do == "clear":
                target.clear()
        elif isinstance(target, dict):
            if target and r.random() < 0.4:
                target.pop(r.choice(list(target)))
            else:
                target[r.choice("abcdef")] = self.value(1)
        elif isinstance(target, set):
            target.symmetric_difference_update({r.randrange(50)})
        elif isinstance(target, Slots):
            target.value = self.value(1)
        elif isinstance(target, Box):
            name = r.choice("abc")
            if name in vars(target) and r.random() < 0.4:
                delattr(target, name)
            else:
                setattr(target, name, self.value(1))
        elif r.random() < 0.5:
            target.requires_grad_(not target.requires_grad)
        else:
            target.grad = ad.ones_like(target) if target.grad is None else None


@pytest.mark.parametrize("seed", range(150))
def test_a_match_says_what_a_fresh_collection_says(seed):
    make = Maker(seed)
    roots = [make.value(4) for _ in range(4)]

    def f(roots, x):
        for r in roots:
            for name in "abc", "value":
                getattr(r, name, None)
        return x

    layout = laid_out(f, roots, x)
    make.pool.append(roots)
    outcomes = set()
    for _ in range(12):
        fresh = laid_out(f, roots, x)
        agree = layout.same_structure(fresh) is True
        found = layout.match(f, (roots, x), {})
        assert (found is not None) == agree, (layout.why, layout.same_structure(fresh))
        if found is not None:
            assert [t is u for t, u in zip(found, fresh.tensors)] == [True] * len(found)
        else:
            assert layout.why
            layout = fresh
        outcomes.add(agree)
        for _ in range(make.random.randrange(3)):
            make.change()
        if make.random.random() < 0.5:
            layout.release_tensors()
            gc.collect(0)
    layout.release_tensors()
    roots.clear()
    make.pool.clear()
    layout.match(f, (roots, x), {})


def test_containers_that_change_while_they_are_read():
    """Finalizers that the collector calls in the middle of a walk do to containers what they like."""
    items = [[i] for i in range(50)]
    table = {str(i): [i] for i in range(50)}
    boxes = [Box(k=i) for i in range(50)]
    sets = [{i} for i in range(50)]

    class Bomb:
        def __del__(self):
            items[:] = [[i] for i in range(50)]
            table.clear()
            table.update((str(i), [i]) for i in range(50))
            for b in boxes:
                b.__dict__ = {"k": b.k}

    def f(x):
        return (items, table, boxes, sets, [b.k for b in boxes], x)[-1]

    layout = laid_out(f, x)
    old = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(100):
            bomb = Bomb()
            bomb.self = bomb
            del bomb
            layout.match(f, (x,), {})
    finally:
        gc.set_threshold(*old)
