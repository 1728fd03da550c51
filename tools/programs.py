"""Install pinned packages that are written for torch, and run a program of each on Adjoint: `python tools/programs.py [NAME …]`.

Each is installed by pip into a folder of its own (so with the network, and without torch, which `--no-deps` leaves out), and runs as
`python -m adjoint.as_torch` there. A program says by an assertion what it found. With `--write`, the date and the outcome go to
the page docs/running_torch_programs.md. A table of names and programs, `PROGRAMS`, is all there is to extend.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "running_torch_programs.md"
MARK = re.compile(r"(?<=<!-- last run -->\n).*?(?=<!-- end of last run -->)", re.DOTALL)

#: What pip installs, of which only the first without its dependencies where torch is among them; and the program.
PROGRAMS = {
    "einops": (
        ["einops==0.8.2"],
        """
        import torch, einops
        x = torch.arange(24.0, requires_grad=True).reshape(2, 3, 4)
        y = einops.rearrange(x, "a b c -> c (a b)")
        assert y.shape == (4, 6) and einops.reduce(y, "c n -> c", "sum").tolist() == x.sum((0, 1)).tolist()
        """,
    ),
    "torchdiffeq": (
        ["torchdiffeq==0.2.5"],
        """
        import torch, torchdiffeq
        rate = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        t, start = torch.tensor([0.0, 2.0], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        end = torchdiffeq.odeint(lambda t, y: -rate * y, start, t, rtol=1e-9, atol=1e-9)[-1].sum()
        (g,) = torch.autograd.grad(end, rate)
        torch.testing.assert_close(end, torch.exp(-2 * rate))
        torch.testing.assert_close(g, -2 * torch.exp(-2 * rate.detach()))
        """,
    ),
    "entmax": (
        ["entmax==1.3"],
        """
        import torch, entmax
        x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
        for f in (entmax.sparsemax, entmax.entmax15):
            torch.testing.assert_close(f(x, dim=-1).sum(-1), torch.ones(4, dtype=torch.float64))
            assert torch.autograd.gradcheck(lambda x: f(x, dim=-1), x)
        """,
    ),
    "lion-pytorch": (
        ["lion-pytorch==0.2.5"],
        """
        import torch
        from lion_pytorch import Lion
        model, x = torch.nn.Linear(4, 1), torch.randn(64, 4)
        optimizer, losses = Lion(model.parameters(), lr=1e-2), []
        for _ in range(400):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.05 * losses[0], losses[-1]
        """,
    ),
    "pytorch-msssim": (
        ["pytorch-msssim==1.0.0"],
        """
        import torch, pytorch_msssim
        x = torch.rand(1, 3, 32, 32)
        assert abs(pytorch_msssim.ssim(x, x, data_range=1).item() - 1) < 1e-6
        noisy = (x + 0.1 * torch.randn_like(x)).requires_grad_()
        pytorch_msssim.ssim(x, noisy, data_range=1).backward()
        assert noisy.grad.isfinite().all() and noisy.grad.abs().sum() > 0
        """,
    ),
    "zuko": (
        ["zuko==1.6.0"],
        """
        import torch, zuko
        flow = zuko.flows.NSF(2, transforms=2, hidden_features=[16])
        x = torch.randn(256, 2) * torch.tensor([0.5, 2.0])
        optimizer, losses = torch.optim.Adam(flow.parameters(), lr=1e-2), []
        for _ in range(30):
            optimizer.zero_grad()
            loss = -flow().log_prob(x).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] and flow().sample((3,)).shape == (3, 2)
        """,
    ),
    "pyro": (
        ["pyro-ppl==1.9.2", "pyro-api", "opt-einsum", "tqdm"],
        """
        import torch, pyro, pyro.distributions as dist
        data = torch.cat([torch.ones(6), torch.zeros(4)])
        def model():
            p = pyro.sample("p", dist.Beta(10.0, 10.0))
            with pyro.plate("data", 10):
                pyro.sample("obs", dist.Bernoulli(p), obs=data)
        def guide():
            a = pyro.param("a", torch.tensor(15.0), constraint=dist.constraints.positive)
            b = pyro.param("b", torch.tensor(15.0), constraint=dist.constraints.positive)
            pyro.sample("p", dist.Beta(a, b))
        pyro.set_rng_seed(0)
        svi = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), pyro.infer.Trace_ELBO(num_particles=8))
        for _ in range(400):
            svi.step()
        a, b = pyro.param("a").item(), pyro.param("b").item()
        assert 0.51 < a / (a + b) < 0.56, (a, b)  # 16 / 30 in the end
        """,
    ),
    "transformers": (
        ["transformers==5.23.0"],
        """
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1))
        ids = torch.randint(2, 50, (2, 10))
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
        for _ in range(10):
            loss = model(ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        assert losses[-1] < 0.8 * losses[0], losses
        assert model.eval().generate(ids[:, :3], max_new_tokens=4, do_sample=False).shape[1] <= 7
        """,
    ),
}
#: These do not ask for torch: pip finds what else they need.
WITHOUT_TORCH = {"transformers", "einops"}


def run(name, folder):
    """What a package's program says: '' where all is well, else the last lines of its errors."""
    packages, program = PROGRAMS[name]
    options = [] if name in WITHOUT_TORCH else ["--no-deps"]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        folder,
    ]
    installed = subprocess.run([*pip, *options, *packages], capture_output=True, text=True)
    if installed.returncode:
        return "not installed: " + installed.stderr.strip()[-500:]
    file = pathlib.Path(folder) / "program_of_the_row.py"
    file.write_text("\n".join(line[8:] for line in program.splitlines()))
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "adjoint.as_torch", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return "" if ran.returncode == 0 else ran.stderr.strip()[-1500:] or f"ended with {ran.returncode}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--write", action="store_true", help="write the date and the outcome to the page")
    options = parser.parse_args()
    outcome = {}
    for name in options.names or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            outcome[name] = run(name, folder)
        print(f"{name}: {outcome[name] or 'runs'}", flush=True)
    if options.write:
        packages = {name: PROGRAMS[name][0][0].replace("==", " ") for name in outcome}
        well = ", ".join(packages[name] for name, error in outcome.items() if not error)
        failed = ", ".join(packages[name] for name, error in outcome.items() if error)
        line = (
            f"Last run {datetime.date.today()}: {well} ran" + (f"; {failed} failed" if failed else "") + ".\n"
        )
        PAGE.write_text(MARK.sub(lambda _: line, PAGE.read_text()))
    return any(outcome.values())


if __name__ == "__main__":
    sys.exit(main())
