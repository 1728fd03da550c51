"""Random collective calls on all ranks, compared with NumPy and, on request, with torch's Gloo: values, dtypes and errors.

    python tests/distributed/fuzz_collectives.py --calls 1000 --ranks 3 --seed 1
    python tests/distributed/fuzz_collectives.py --calls 1000 --ranks 3 --peer PYTHON     # an interpreter that has torch

Each rank draws the same calls: which operation, dtype, shape, memory layout, root, group, whether it waits. What a rank puts in follows
from its rank and the call, so that what must come out is known. The tests run a small number. Start reading at `Call`.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from datetime import timedelta

import numpy as np

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
FORMS = "plain turned every_other shared leaf conjugate imaginary offset".split()
SHAPES = ((), (0,), (1,), (5,), (2, 3), (3, 1, 2), (40, 30))
REDUCE = "SUM SUM PRODUCT MIN MAX BAND BOR BXOR AVG".split()
KINDS = (
    "all_reduce broadcast reduce all_gather all_gather_into_tensor gather scatter reduce_scatter reduce_scatter_tensor all_to_all_single "
    "uneven all_to_all ring batch objects broadcast_objects gather_object scatter_objects coalesced barrier wrong"
).split()
WRONG = "root list dtype split group op self scatter_list gather_list not_a_tensor whole".split()


class Call:
    """One call, the same on all ranks."""

    def __init__(self, number, drawn, size):
        self.number, self.kind = number, drawn.choice(KINDS)
        self.dtype, self.shape, self.form = drawn.choice(DTYPES), drawn.choice(SHAPES), drawn.choice(FORMS)
        if self.kind == "reduce_scatter_tensor" and not self.shape:
            self.shape = (1,)  # torch's Gloo asks for a first dimension
        self.op, self.waits, self.wrong = drawn.choice(REDUCE), drawn.random() < 0.7, drawn.choice(WRONG)
        #: Which group: all; all but one, where rank 0 is not first; one in another order.
        self.group = drawn.randrange(3) if size > 2 else 0
        self.ranks = [list(range(size)), list(range(1, size)), [0, size - 1]][self.group]
        self.root, self.by_group_rank = drawn.choice(self.ranks), drawn.random() < 0.3
        self.sizes = [[drawn.randrange(3) for _ in self.ranks] for _ in self.ranks]  # [from][to]

    def give(self, rank, part=0, shape=None):
        """What a rank puts in, as NumPy has it: small whole numbers, exact in every dtype."""
        shape = self.shape if shape is None else shape
        x = (np.arange(int(np.prod(shape))) * 7 + 3 * rank + 5 * part + self.number) % 5
        if self.form == "shared":  # one number everywhere
            x = np.full_like(x, (rank + part) % 4)
        kind = {"bfloat16": "float32"}.get(self.dtype, self.dtype)
        if self.dtype == "bool":
            x = x % 2
        return (x + 1j * (x % 3) if self.dtype.startswith("complex") else x).astype(kind).reshape(shape)

    def combined(self, parts):
        """What the ranks' parts become."""
        if self.dtype == "bool":
            ops = {
                "SUM": np.logical_or,
                "PRODUCT": np.logical_and,
                "MIN": np.logical_and,
                "MAX": np.logical_or,
            }
        else:
            ops = {"SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
        ops |= {"BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}
        total = parts[0]
        for part in parts[1:]:
            total = ops[self.op](total, part)
        return total / len(parts) if self.op == "AVG" else total

    def reducible(self):
        """Whether the dtype has the reduction."""
        fractional = self.dtype.startswith(("float", "bfloat", "complex"))
        if self.op.startswith("B"):
            return not fractional
        if self.op == "AVG":
            return fractional
        return not (self.dtype.startswith("complex") and self.op in ("MIN", "MAX"))

    def __repr__(self):
        return json.dumps(vars(self))


class Doer:
    """A rank: makes calls with one library or the other, and says what came of them."""

    def __init__(self, torch, dist, rank, size):
        self.torch, self.dist, self.rank, self.size = torch, dist, rank, size
        self.groups = [None]
        if size > 2:
            self.groups += [dist.new_group(list(range(1, size))), dist.new_group([0, size - 1])]

    def tensor(self, call, values, written=False):
        """Numbers in the memory layout that the call wants; what is written cannot be every one."""
        torch, dtype = self.torch, getattr(self.torch, call.dtype)
        x = torch.tensor(values.tolist()).reshape(values.shape).to(dtype)
        form = call.form
        if form == "turned":
            return x.clone() if x.dim() < 2 else x.transpose(0, 1).contiguous().transpose(0, 1)
        if form == "every_other" and x.dim():
            wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=dtype)
            wide[..., ::2] = x
            return wide[..., ::2]
        if form == "offset":
            return torch.cat([torch.zeros(3, dtype=dtype), x.reshape(-1)])[3:].view(x.shape)
        if form == "shared" and not written and x.dim():
            return x.reshape(-1)[:1].expand(x.numel()).reshape(x.shape) if x.numel() else x
        if form == "leaf" and (dtype.is_floating_point or dtype.is_complex):
            return x.requires_grad_()
        if form == "conjugate" and dtype.is_complex:
            return x.conj().resolve_conj().conj()
        if form == "imaginary" and dtype in (torch.float32, torch.float64) and not written:
            return torch.complex(torch.zeros_like(x), -x).conj().imag
        return x

    def values(self, x):
        x = x.detach()
        x = x.resolve_conj().resolve_neg()
        x = x.float() if x.dtype in (self.torch.bfloat16, self.torch.float16) else x
        x = self.torch.view_as_real(x) if x.dtype.is_complex else x
        return x.contiguous().tolist()

    def make(self, call):
        """The call; what this rank has afterwards, as lists, or the error."""
        torch, dist, rank = self.torch, self.dist, self.rank
        group, ranks = self.groups[call.group], call.ranks
        if rank not in ranks:
            return None
        me, n, kind = ranks.index(rank), len(ranks), call.kind
        after, before = ranks[(me + 1) % n], ranks[(me - 1) % n]
        to = {"group": group}
        waits = {**to, "async_op": not call.waits}

        def root(name):
            return {f"group_{name}": ranks.index(call.root)} if call.by_group_rank else {name: call.root}

        def blank(shape=None):
            return self.tensor(call, np.zeros_like(call.give(rank, shape=shape)), True)

        def give(part=0, shape=None, written=False):
            return self.tensor(call, call.give(rank, part, shape), written)

        op = getattr(dist.ReduceOp, call.op)
        many = list(range(n))
        if kind == "all_reduce":
            out = [give(written=True)]
            work = dist.all_reduce(out[0], op, **waits)
        elif kind == "coalesced":
            out = [give(written=True), give(1, written=True)]
            work = dist.all_reduce_coalesced(out, op, **to)
        elif kind == "broadcast":
            out = [give(written=True)]
            work = dist.broadcast(out[0], **root("src"), **waits)
        elif kind == "reduce":
            out = [give(written=True)]
            work = dist.reduce(out[0], op=op, **root("dst"), **waits)
            work = work and work.wait()
            out = out if rank == call.root else []
        elif kind == "all_gather":
            out = [blank() for _ in many]
            work = dist.all_gather(out, give(), **waits)
        elif kind == "all_gather_into_tensor":
            plain = give().contiguous()
            out = [torch.zeros((n, *call.shape), dtype=plain.dtype)]
            work = dist.all_gather_into_tensor(out[0], plain, **waits)
        elif kind == "gather":
            out = [blank() for _ in many] if rank == call.root else []
            work = dist.gather(give(), out or None, **root("dst"), **waits)
        elif kind == "scatter":
            out = [blank()]
            work = dist.scatter(
                out[0], [give(p) for p in many] if rank == call.root else None, **root("src"), **waits
            )
        elif kind == "reduce_scatter":
            out = [blank()]
            work = dist.reduce_scatter(out[0], [give(p) for p in many], op, **waits)
        elif kind == "reduce_scatter_tensor":
            out = [blank().contiguous()]
            work = dist.reduce_scatter_tensor(
                out[0], torch.cat([give(p).contiguous() for p in many]).detach(), op, **waits
            )
        elif kind == "all_to_all_single":
            out = [torch.zeros((n, *call.shape), dtype=give().dtype)]
            work = dist.all_to_all_single(
                out[0], torch.stack([give(p).contiguous() for p in many]).detach(), **waits
            )
        elif kind == "uneven":
            sent, got = call.sizes[me], [row[me] for row in call.sizes]
            x = give(0, (sum(sent), 2)).contiguous().detach()
            out = [torch.zeros((sum(got), 2), dtype=x.dtype)]
            work = dist.all_to_all_single(out[0], x, got, sent, **waits)
        elif kind == "all_to_all":
            out = [blank() for _ in many]
            work = dist.all_to_all(out, [give(p) for p in many], **waits)
        elif kind in ("ring", "batch"):
            out, x = [blank()], give()
            if kind == "batch":
                works = dist.batch_isend_irecv(
                    [dist.P2POp(dist.isend, x, after, group), dist.P2POp(dist.irecv, out[0], before, group)]
                )
            else:
                works = [
                    dist.irecv(out[0], before, group, call.number),
                    dist.isend(x, after, group, call.number),
                ]
            for w in reversed(works):
                w.wait()
            work = None
        elif kind == "objects":
            things = [None] * n
            dist.all_gather_object(things, {"rank": rank, "call": call.number}, **to)
            return things
        elif kind == "broadcast_objects":
            things = [rank, "x" * call.number] if rank == call.root else [None, None]
            dist.broadcast_object_list(things, **root("src"), **to)
            return things
        elif kind == "gather_object":
            things = [None] * n if rank == call.root else None
            dist.gather_object((rank, call.number), things, **root("dst"), **to)
            return things and [list(t) for t in things]
        elif kind == "scatter_objects":
            things = [None]
            dist.scatter_object_list(
                things, [f"for {r}" for r in ranks] if rank == call.root else None, **root("src"), **to
            )
            return things
        elif kind == "barrier":
            work, out = dist.barrier(**waits), []
        else:
            return self.mistake(call, give, to, n)
        if work is not None and not call.waits and hasattr(work, "wait"):
            work.wait()
        return [self.values(x) for x in out]

    def mistake(self, call, give, to, n):
        """A call that every rank must refuse by itself."""
        torch, dist, x = self.torch, self.dist, self.torch.ones(3)
        {
            "root": lambda: dist.broadcast(x, self.size + 3, **to),
            "list": lambda: dist.all_gather([torch.ones(3)] * (n + 1), x, **to),
            "dtype": lambda: dist.all_gather([torch.ones(3, dtype=torch.int32)] * n, x, **to),
            "split": lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [9] * n, [1] * n, **to),
            "group": lambda: dist.all_reduce(x, group="everyone"),
            "op": lambda: dist.all_reduce(x, "sum", **to),
            "self": lambda: dist.send(x, self.rank, **to),
            "scatter_list": lambda: dist.scatter(
                x, [x] * (n + 2) if self.rank == call.root else None, src=call.root, **to
            ),
            "gather_list": lambda: dist.gather(
                x, [x] if self.rank != call.root else None, dst=call.root, **to
            ),
            "not_a_tensor": lambda: dist.broadcast([1.0], call.root, **to),
            "whole": lambda: dist.all_gather_into_tensor(torch.ones(3 * n + 1), x, **to),
        }[call.wrong if call.wrong != "scatter_list" else "gather_list"]()
        return "no error"

    def said(self, call):
        """What came of a call; errors by their class and words."""
        try:
            return self.make(call)
        except Exception as error:  # noqa: BLE001 - what is compared
            return {"error": type(error).__name__, "words": str(error)}


def expected(call, rank):
    """What a rank must have after a call, by NumPy; None: it takes no part, or says of itself that it refuses."""
    ranks = call.ranks
    if rank not in ranks:
        return None
    me, n, kind = ranks.index(rank), len(ranks), call.kind
    if (
        kind in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "coalesced")
        and not call.reducible()
    ):
        return "refused"
    if kind == "all_reduce":
        return [call.combined([call.give(r) for r in ranks])]
    if kind == "coalesced":
        return [call.combined([call.give(r, p) for r in ranks]) for p in (0, 1)]
    if kind == "broadcast":
        return [call.give(call.root)]
    if kind == "reduce":
        return [call.combined([call.give(r) for r in ranks])] if rank == call.root else []
    if kind == "all_gather":
        return [call.give(r) for r in ranks]
    if kind == "all_gather_into_tensor":
        return [np.stack([call.give(r) for r in ranks])]
    if kind == "gather":
        return [call.give(r) for r in ranks] if rank == call.root else []
    if kind == "scatter":
        return [call.give(call.root, me)]
    if kind in ("reduce_scatter", "reduce_scatter_tensor"):
        return [call.combined([call.give(r, me) for r in ranks])]
    if kind == "all_to_all_single":
        return [np.stack([call.give(r, me) for r in ranks])]
    if kind == "all_to_all":
        return [call.give(r, me) for r in ranks]
    if kind == "uneven":
        rows = [
            np.split(call.give(r, 0, (sum(s), 2)), np.cumsum(s)[:-1])[me] for r, s in zip(ranks, call.sizes)
        ]
        return [np.concatenate(rows)]
    if kind in ("ring", "batch"):
        return [call.give(ranks[(me - 1) % n])]
    if kind == "objects":
        return [{"rank": r, "call": call.number} for r in ranks]
    if kind == "broadcast_objects":
        return [call.root, "x" * call.number]
    if kind == "gather_object":
        return [[r, call.number] for r in ranks] if rank == call.root else None
    if kind == "scatter_objects":
        return [f"for {rank}"]
    return [] if kind == "barrier" else "refused"


def check(call, rank, found):
    """Whether what a rank says is what NumPy says."""
    wanted = expected(call, rank)
    if wanted == "refused":
        assert isinstance(found, dict) and found["words"], (call, rank, found)
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], (np.ndarray, np.generic)):
        assert isinstance(found, list) and len(found) == len(wanted), (call, rank, found)
        for one, other in zip(found, map(np.asarray, wanted)):
            if np.iscomplexobj(other):
                other = np.stack([other.real, other.imag], -1)
            coarse = {"bfloat16": 1e-2, "float16": 1e-3}.get(call.dtype, 1e-6)
            np.testing.assert_allclose(
                np.array(one, other.dtype).reshape(other.shape), other, rtol=coarse, err_msg=f"{rank}: {call}"
            )
    else:
        assert found == wanted, (call, rank, found, wanted)


def calls(seed, count, size):
    """The calls of a run."""
    drawn = random.Random(seed)
    return [Call(number, drawn, size) for number in range(count)]


def ranks_of_adjoint(rank, size, seed, count):
    """What a process of the tests runs."""
    import adjoint
    import adjoint.distributed as dist

    doer = Doer(adjoint, dist, rank, size)
    for call in calls(int(seed), int(count), size):
        check(call, rank, doer.said(call))
    print("ok")


def one_rank(library, path, rank, size, seed, count):
    """A process of a long run: what it says of each call, one a line."""
    import importlib

    torch = importlib.import_module(library)
    dist = importlib.import_module(f"{library}.distributed")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=size, timeout=timedelta(seconds=20)
    )
    doer = Doer(torch, dist, rank, size)
    for call in calls(seed, count, size):
        print(json.dumps(doer.said(call)), flush=True)
    dist.destroy_process_group()


def all_ranks(python, library, options):
    """What each rank of a library said, call by call."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = [str(n) for n in (options.ranks, options.seed, options.calls)]
        running = []
        for rank in range(options.ranks):
            with open(f"{folder}/{rank}", "w") as file:
                command = [
                    python,
                    os.path.abspath(__file__),
                    "--rank",
                    library,
                    f"{folder}/meet",
                    str(rank),
                    *numbers,
                ]
                running.append(subprocess.Popen(command, stdout=file))
        for process in running:
            process.wait()
        said = []
        for rank in range(options.ranks):
            with open(f"{folder}/{rank}") as file:
                said.append([json.loads(line) for line in file])
        return said


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", help="an interpreter that has torch")
    options = parser.parse_args()
    made = calls(options.seed, options.calls, options.ranks)
    ours = all_ranks(sys.executable, "adjoint", options)
    for rank, said in enumerate(ours):
        assert len(said) == len(made), f"rank {rank} ended after {len(said)} calls"
        for call, found in zip(made, said):
            check(call, rank, found)
    print(f"{len(made)} calls on {options.ranks} ranks are NumPy's")
    differences = {}
    for rank, said in enumerate(all_ranks(options.peer, "torch", options) if options.peer else []):
        assert len(said) == len(made), f"torch's rank {rank} ended after {len(said)} calls: {made[len(said)]}"
        for call, found, mine in zip(made, said, ours[rank]):
            if json.loads(json.dumps(mine)) == found:
                continue
            errors = [
                f"{x['error']}: {x['words'][:90]}" if isinstance(x, dict) else "a value"
                for x in (found, mine)
            ]
            if errors == ["a value"] * 2 and call.form == "every_other":
                continue  # torch's Gloo takes memory as it lies, and leaves out elements of such tensors
            if errors == ["a value"] * 2 and np.allclose(np.array(found[0]), np.array(mine[0]), rtol=1e-2):
                continue
            key = f"{call.kind}{'/' + call.wrong if call.kind == 'wrong' else ''}: torch {errors[0]}; here {errors[1]}"
            differences.setdefault(key, []).append(call)
    for key, found in sorted(differences.items()):
        print(f"{len(found):5} {key}\n      first: {found[0]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        library, path, *numbers = sys.argv[2:]
        one_rank(library, path, *map(int, numbers))
    else:
        main()
