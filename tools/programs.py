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

#: What pip installs (the first, several apart by spaces, without their dependencies, among which torch is; but see WITHOUT_TORCH),
#: and the program.
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
    # On two ranks each.
    "accelerate": (
        ["accelerate==1.15.0", "psutil", "huggingface_hub", "safetensors"],
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        def work():
            from accelerate import Accelerator
            torch.manual_seed(0)
            accelerator = Accelerator(cpu=True)
            assert accelerator.num_processes == 2
            x = torch.randn(64, 4)
            data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
            model, optimizer, data = accelerator.prepare(model, optimizer, data)
            for _ in range(8):
                for inputs, targets in data:
                    loss = (model(inputs) - targets).square().mean()
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            both = accelerator.gather(accelerator.unwrap_model(model).weight.detach().reshape(1, -1))
            assert torch.equal(both[0], both[1]) and (both - 1).abs().max() < 0.2, both
            seen = accelerator.gather_for_metrics(torch.arange(3) + 3 * accelerator.process_index)
            assert seen.tolist() == [0, 1, 2, 3, 4, 5], seen
            accelerator.end_training()

        if __name__ == "__main__":
            from accelerate import debug_launcher
            debug_launcher(work, num_processes=2)
        """,
    ),
    "pytorch-ignite": (
        ["pytorch-ignite==0.5.5", "packaging"],
        """
        import torch
        import ignite.distributed as idist
        from ignite.engine import Engine, create_supervised_evaluator
        from ignite.metrics import MeanSquaredError

        def training(local_rank, epochs):
            torch.manual_seed(0)
            x = torch.randn(64, 4)
            loader = idist.auto_dataloader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
            model = idist.auto_model(torch.nn.Linear(4, 1))
            optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))

            def step(engine, batch):
                optimizer.zero_grad()
                (model(batch[0]) - batch[1]).square().mean().backward()
                optimizer.step()

            Engine(step).run(loader, max_epochs=epochs)
            mse = create_supervised_evaluator(model, {"mse": MeanSquaredError()}).run(loader).metrics["mse"]
            both = idist.all_gather(torch.tensor([mse]))
            assert both[0] == both[1] and both[0] < 0.5 and idist.all_reduce(idist.get_rank() + 1) == 3, both

        if __name__ == "__main__":
            with idist.Parallel(backend="gloo", nproc_per_node=2) as parallel:
                parallel.run(training, 3)
        """,
    ),
    "lightning": (
        [
            "lightning==2.6.6 lightning-utilities torchmetrics pytorch-lightning",
            *("fsspec[http]", "packaging", "pyyaml", "tqdm", "typing-extensions"),
        ],
        """
        import os
        import torch
        import lightning

        class Net(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def loss(self, batch):
                return (self.layer(batch[0]) - batch[1]).square().mean()

            def training_step(self, batch, index):
                return self.loss(batch)

            def validation_step(self, batch, index):
                self.log("val", self.loss(batch), sync_dist=True)

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        if __name__ == "__main__":
            lightning.seed_everything(0)
            x = torch.randn(64, 4)
            data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
            # "ddp" starts this program again, with LOCAL_RANK.
            for strategy in ("ddp_spawn", "ddp")["LOCAL_RANK" in os.environ :]:
                trainer = lightning.Trainer(
                    accelerator="cpu", devices=2, strategy=strategy, max_epochs=3, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
                trainer.fit(Net(), data, data)
                assert trainer.callback_metrics["val"] < 0.1, trainer.callback_metrics
        """,
    ),
    "torchmetrics": (
        ["torchmetrics==1.9.0 lightning-utilities", "packaging", "typing-extensions"],
        """
        import tempfile, torch, torch.distributed as dist, torch.multiprocessing as mp

        def work(rank, size, folder):
            import torchmetrics
            dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
            torch.manual_seed(0)
            p, t = torch.randn(40, 5).softmax(1), torch.randint(0, 5, (40,))
            together, alone = (
                torchmetrics.MetricCollection([
                    getattr(torchmetrics, kind)("multiclass", num_classes=5, sync_on_compute=sync)
                    for kind in ("Accuracy", "F1Score", "AUROC", "ConfusionMatrix")])
                for sync in (True, False))
            together.update(p[rank::size], t[rank::size])
            alone.update(p, t)
            found = together.compute()
            for name, value in alone.compute().items():
                torch.testing.assert_close(found[name], value)
            dist.destroy_process_group()

        if __name__ == "__main__":
            with tempfile.TemporaryDirectory() as folder:
                mp.spawn(work, (2, folder), nprocs=2)
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
    "transformers' Trainer on two ranks": (
        ["accelerate==1.15.0", "transformers==5.23.0", "psutil"],
        """
        import sys, tempfile, torch
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

        def main():
            set_seed(0)
            ids = [(torch.arange(12) * (i % 5 + 1)) % 50 for i in range(16)]
            small = dict(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1)
            model = GPT2LMHeadModel(GPT2Config(**small))
            with tempfile.TemporaryDirectory() as folder:
                options = TrainingArguments(
                    folder, per_device_train_batch_size=4, num_train_epochs=10, learning_rate=3e-2, report_to=[], save_strategy="no",
                    disable_tqdm=True, use_cpu=True, logging_strategy="no", ddp_backend="gloo")
                trainer = Trainer(model, options, train_dataset=[{"input_ids": x, "labels": x} for x in ids])
                assert options.world_size == 2
                assert trainer.train().training_loss < 3
            sizes = [None, None]
            torch.distributed.all_gather_object(sizes, sum(p.double().abs().sum().item() for p in model.parameters()))
            assert sizes[0] == sizes[1]

        if __name__ == "__main__":
            if torch.distributed.is_torchelastic_launched():
                main()
            else:
                from torch.distributed.run import main as launch
                launch(["--nproc-per-node=2", __file__])
        """,
    ),
}
#: These do not ask for torch: pip finds what else they need.
WITHOUT_TORCH = {"transformers", "einops"}


def run(name, folder):
    """What a package's program says: '' where all is well, else the last lines of its errors."""
    packages, program = PROGRAMS[name]
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
    first = packages[0].split() if name in WITHOUT_TORCH else ["--no-deps", *packages[0].split()]
    for some in filter(None, (first, packages[1:])):
        installed = subprocess.run([*pip, *some], capture_output=True, text=True)
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
        packages = {name: PROGRAMS[name][0][0].split()[0].replace("==", " ") for name in outcome}
        well = ", ".join(packages[name] for name, error in outcome.items() if not error)
        failed = ", ".join(packages[name] for name, error in outcome.items() if error)
        line = (
            f"Last run {datetime.date.today()}: {well} ran" + (f"; {failed} failed" if failed else "") + ".\n"
        )
        PAGE.write_text(MARK.sub(lambda _: line, PAGE.read_text()))
    return any(outcome.values())


if __name__ == "__main__":
    sys.exit(main())
