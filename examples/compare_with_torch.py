"""The examples under Adjoint and under torch, from equal weights, on equal batches: their losses, side by side.

    python examples/compare_with_torch.py          # where torch is installed
    python examples/compare_with_torch.py --times  # seconds of the examples of docs/gallery.md; names choose some

An example is read twice, the second time with `torch` where it says `adjoint`, and takes the same steps. Start reading at
`compare`.
"""

import argparse
import importlib.util
import io
import os
import pathlib
import re
import sys
import tempfile
import types
from contextlib import redirect_stdout

import adjoint as ad

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES = "gpt", "lstm", "unet", "vae"
GALLERY = (
    "variational_inference",
    "hamiltonian_monte_carlo",
    "neural_ode",
    "heat_equation",
    "saliency",
    "hyperparameters",
    "maml",
    "step_sizes",
    "renderer",
)


def read(name, package):
    """The module of an example, with `package` for its tensors."""
    source = (FOLDER / f"{name}.py").read_text()
    source = re.sub(r"^(import|from) adjoint\b", rf"\1 {package}", source, flags=re.MULTILINE)
    if package == "torch":
        source = source.replace("ad.jit(", "(lambda f: f)(")  # torch.compile needs a compiler, and seconds
    module = types.ModuleType(f"{name}_by_{package}")
    module.__file__ = str(FOLDER / f"{name}.py")
    exec(compile(source, module.__file__, "exec"), vars(module))
    return module


def losses(module, model, batches):
    optimizer, found = module.make_optimizer(model), []
    for batch in batches:
        loss = module.loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare(name, steps):
    """(losses by Adjoint, losses by torch) of an example, in float64."""
    import torch

    ad.manual_seed(0)
    ours, theirs = read(name, "adjoint"), read(name, "torch")
    model, other = ours.Model().double(), theirs.Model().double()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.pth")
        ad.save(model.state_dict(), path)
        other.load_state_dict(torch.load(path))

    def doubled(tensors, library):
        return tuple(
            library.tensor(
                t.tolist(), dtype=getattr(library, "float64" if t.is_floating_point() else "int64")
            )
            for t in tensors
        )

    batches = list(ours.make_batches(steps))
    return (
        losses(ours, model, [doubled(b, ad) for b in batches]),
        losses(theirs, other, [doubled(b, torch) for b in batches]),
    )


def seconds(module, arguments):
    """The time that an example says it took, without its picture."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
        module.main([*arguments, "--output", os.path.join(folder, "picture.png")])
    return float(re.findall(r" ([\d.]+) s$", said.getvalue(), re.MULTILINE)[0])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--times", nargs="*", metavar="NAME", help="take times instead, of these or all")
    parser.add_argument("--short", action="store_true", help="times of the examples' short mode")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: there is nothing to compare with", file=sys.stderr)
        return 2
    if options.times is not None:
        import torch

        torch.set_num_threads(ad.get_num_threads())
        for name in options.times or GALLERY:
            short = ["--short"] if options.short else []
            modules = read(name, "adjoint"), read(name, "torch")
            for module in modules:
                seconds(module, ["--short"])  # What is done once is not counted.
            ours, theirs = (min(seconds(m, short) for _ in range(2)) for m in modules)
            print(f"{name:24} {ours:6.2f} s by Adjoint, {theirs:6.2f} s by torch", flush=True)
        return 0
    worst = 0.0
    for name in EXAMPLES:
        ours, theirs = compare(name, 20)
        difference = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
        worst = max(worst, difference)
        print(
            f"{name:5} loss {ours[0]:.6f} -> {ours[-1]:.6f} by Adjoint, {theirs[0]:.6f} -> {theirs[-1]:.6f} by torch; "
            f"largest relative difference {difference:.1e}"
        )
    return 0 if worst < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
