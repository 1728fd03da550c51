"""Programs under `ad.jit`, beside the same programs run as they are, in turns: `python -m benchmarks.replay [NAME …]`.

Each row says what a call takes, what a replayed call takes, the ratio of the medians, and that of the most memory which a call takes
beyond what was there. Of what is written out by hand the first column is the row of the library that computes the same. One thread. A replayed call gives the same bits, which is
checked before anything is timed. Start reading at `programs`.
"""

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path

import adjoint as ad

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from taken import peak  # noqa: E402

F = ad.nn.functional


def programs():
    """(name, function of no arguments that returns tensors), in the order of the table; and what comes before each call."""
    one, factor = ad.ones((), requires_grad=True), ad.full((), 1.0001)

    def chain():
        y = one
        for _ in range(1000):
            y = y * factor
        return ad.autograd.grad(y, one)

    matrix = (ad.eye(3) * 0.5).requires_grad_()
    start = ad.tensor([0.1, 0.2, 0.3], requires_grad=True)

    def recurrence():
        s = start
        for _ in range(200):
            s = ad.tanh(matrix @ s + start) - 0.1 * s
        return ad.autograd.grad((s**2).sum(), (matrix, start))

    point = ad.linspace(-1, 1, 10)

    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    inputs, labels = ad.randn(32, 64), ad.randint(0, 10, (32,))
    net = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Tanh(), ad.nn.Linear(64, 10))
    weights = list(net.parameters())

    def mlp_gradient():
        return ad.autograd.grad(F.cross_entropy(net(inputs), labels), weights)

    trained = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Tanh(), ad.nn.Linear(64, 10))
    sgd = ad.optim.SGD(trained.parameters(), lr=1e-2, momentum=0.9)

    def step(net, optimizer):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def mlp_step():
        return step(trained, sgd)

    scheduled = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Tanh(), ad.nn.Linear(64, 10))
    steps = ad.optim.SGD(scheduled.parameters(), lr=1e-2, momentum=0.9)

    def mlp_step_with_a_new_rate():
        return step(scheduled, steps)

    def another_rate():
        steps.param_groups[0]["lr"] *= 0.9999

    counted = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Tanh(), ad.nn.Linear(64, 10))
    radam = ad.optim.RAdam(counted.parameters(), lr=1e-3)

    def mlp_step_that_counts():
        return step(counted, radam)

    clock = {"t": 0.0, "h": 0.05}
    state = ad.randn(16, 2)

    def time_step():
        t, h = clock["t"], clock["h"]

        def slope(t, y):
            return (y * (1 + 0.1 * t)).sin() - 0.5 * y / (1 + t * t)

        y = state
        a = slope(t, y)
        b = slope(t + h / 2, y + h / 2 * a)
        c = slope(t + h / 2, y + h / 2 * b)
        clock["t"], clock["h"] = t + h, h * 0.999
        return y + h / 6 * (a + 2 * b + 2 * c + slope(t + h, y + h * c))

    field = ad.nn.Sequential(ad.nn.Linear(2, 32), ad.nn.Tanh(), ad.nn.Linear(32, 2))
    adam = ad.optim.Adam(field.parameters(), lr=1e-3)
    begin, target = ad.randn(16, 2), ad.randn(16, 2)

    def neural_ode(h=0.05):
        y = begin
        for _ in range(40):
            a = field(y)
            b = field(y + h / 2 * a)
            c = field(y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c))
        adam.zero_grad()
        loss = ((y - target) ** 2).mean()
        loss.backward()
        adam.step()
        return loss.detach()

    design, outcome = ad.randn(100, 8), (ad.rand(100) > 0.5).float()

    def hmc(step=0.01):
        q, p = ad.zeros(8), ad.ones(8)
        for _ in range(20):
            w = q.detach().requires_grad_()
            z = design @ w
            density = (outcome * z - F.softplus(z)).sum() - 0.5 * (w * w).sum()
            p = p + step * ad.autograd.grad(density, w)[0]
            q = q + step * p
        return q, p

    transition, observe, seen = ad.eye(4) + 0.1 * ad.eye(4).roll(2, 1), ad.eye(2, 4), ad.randn(50, 2)
    log_q, log_r = ad.zeros(4, requires_grad=True), ad.zeros(2, requires_grad=True)

    def kalman():
        x, p = ad.zeros(4), ad.eye(4)
        q, r = ad.diag(log_q.exp()), ad.diag(log_r.exp())
        density = 0.0
        for y in seen:
            x, p = transition @ x, transition @ p @ transition.T + q
            e, s = y - observe @ x, observe @ p @ observe.T + r
            gain = ad.linalg.solve(s, observe @ p).T
            density = density - 0.5 * (e @ ad.linalg.solve(s, e) + ad.linalg.slogdet(s)[1])
            x, p = x + gain @ e, p - gain @ (observe @ p)
        return ad.autograd.grad(density, (log_q, log_r))

    to_gates, from_state, bias = ad.randn(32, 256) * 0.1, ad.randn(64, 256) * 0.1, ad.zeros(256)
    gates = [t.requires_grad_() for t in (to_gates, from_state, bias)]
    sequence = ad.randn(40, 16, 32)

    def lstm():
        h = c = ad.zeros(16, 64)
        for x in sequence:
            i, f, g, o = (x @ gates[0] + h @ gates[1] + gates[2]).chunk(4, dim=1)
            c = ad.sigmoid(f) * c + ad.sigmoid(i) * ad.tanh(g)
            h = ad.sigmoid(o) * ad.tanh(c)
        return ad.autograd.grad((h**2).mean(), gates)

    large = ad.randn(10_000_000, requires_grad=True)

    def large_value_and_gradient():
        y = (ad.tanh(large) * large + ad.exp(-large * large)).sum()
        return y.detach(), *ad.autograd.grad(y, large)

    def large_gradient():
        return ad.autograd.grad((ad.tanh(large) * large + ad.exp(-large * large)).sum(), large)

    moved, slope = ad.randn(1_000_000), ad.randn(1_000_000)
    first, second = ad.zeros(1_000_000), ad.zeros(1_000_000)

    def adam_written_out():
        with ad.no_grad():
            first.mul_(0.9).add_(0.1 * slope)
            second.mul_(0.999).add_(0.001 * slope * slope)
            moved.sub_(0.01 * first / (second.sqrt() / 0.001**0.5 + 1e-8))
        return moved

    numbers = ad.randn(100_000)

    def polynomial():
        x = numbers
        return ((((x * 0.5 + 1) * x - 2) * x + 3) * x - 4) * x + 5

    return [
        ("chain of 1,000 products, gradient", chain),
        ("3×3 recurrence, 200 steps, gradient", recurrence),
        ("Hessian of Rosenbrock, 10 numbers", lambda: ad.func.hessian(rosenbrock)(point)),
        ("MLP 64-64-10, gradient", mlp_gradient),
        ("MLP 64-64-10, SGD step", mlp_step),
        ("MLP 64-64-10, SGD step, another rate each", mlp_step_with_a_new_rate, another_rate),
        ("MLP 64-64-10, RAdam step", mlp_step_that_counts),
        ("RK4, time and step size change", time_step),
        ("neural ODE, RK4, Adam step", neural_ode),
        ("HMC, 20 leapfrogs, 100 × 8", hmc),
        ("Kalman filter, 50 steps, gradient", kalman),
        ("LSTM by hand, 40 steps, gradient", lstm),
        ("10⁷ element-wise, value and gradient", large_value_and_gradient),
        ("10⁷ element-wise, gradient alone", large_gradient),
        ("Adam step written out, 10⁶ numbers", adam_written_out),
        ("polynomial of 10 operations, 10⁵ numbers", polynomial),
        ("x + 1, a scalar", lambda: factor + 1),
    ]


def by_hand():
    """(name, the row, what computes the same written out), each with its gradient; and a step of Adam."""
    x = ad.randn(256, 512, requires_grad=True)
    weight, bias = ad.randn(512, requires_grad=True), ad.randn(512, requires_grad=True)
    target, labels = ad.rand(256, 512), ad.randint(0, 512, (256,))

    def softmax(t):
        e = ad.exp(t - t.amax(1, keepdim=True))
        return e / e.sum(1, keepdim=True)

    def layer_norm(t):
        d = t - t.mean(1, keepdim=True)
        return d / ad.sqrt((d * d).mean(1, keepdim=True) + 1e-5) * weight + bias

    def gelu(t):
        return 0.5 * t * (1 + ad.erf(t * 0.5**0.5))

    def cross_entropy(t):
        top = t.amax(1, keepdim=True).detach()
        total = (t - top).exp().sum(1, keepdim=True).log() + top
        return (total - t.gather(1, labels[:, None])).mean()

    def bce(t):
        return (t.clamp(min=0) - t * target + ad.log1p(ad.exp(-t.abs()))).mean()

    def with_gradient(f, *weights):
        def run():
            y = f(x)
            return y.detach(), *ad.autograd.grad((y * target).sum() if y.ndim else y, (x, *weights))

        return run

    rows = [
        ("softmax", softmax, lambda t: F.softmax(t, 1), ()),
        ("layer_norm", layer_norm, lambda t: F.layer_norm(t, (512,), weight, bias), (weight, bias)),
        ("gelu", gelu, F.gelu, ()),
        ("cross_entropy", cross_entropy, lambda t: F.cross_entropy(t, labels), ()),
        ("mse_loss", lambda t: ((t - target) ** 2).mean(), lambda t: F.mse_loss(t, target), ()),
        ("binary cross-entropy", bce, lambda t: F.binary_cross_entropy_with_logits(t, target), ()),
    ]
    for name, written, row, weights in rows:
        yield (
            f"{name} by hand, beside its row",
            with_gradient(row, *weights),
            with_gradient(written, *weights),
        )

    moved = ad.nn.Parameter(ad.randn(1_000_000))
    moved.grad = slope = ad.randn(1_000_000)
    adam = ad.optim.Adam([moved])
    place, first, second, count = ad.randn(1_000_000), ad.zeros(1_000_000), ad.zeros(1_000_000), [0]

    def adam_written_out():
        count[0] += 1
        with ad.no_grad():
            first.mul_(0.9).add_(slope, alpha=0.1)
            second.mul_(0.999).addcmul_(slope, slope, value=0.001)
            root = second.sqrt() / (1 - 0.999 ** count[0]) ** 0.5
            place.sub_(first / (root + 1e-8) * (0.001 / (1 - 0.9 ** count[0])))
        return place

    yield "Adam step by hand, 10⁶ numbers, beside its row", adam.step, adam_written_out


def networks():
    """(name, step) of networks whose products take most of the time."""
    convolutions, images, kinds = (
        ad.models.resnet18(num_classes=10),
        ad.randn(2, 3, 64, 64),
        ad.randint(0, 10, (2,)),
    )
    layer = ad.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    attention, words = ad.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), ad.randn(8, 32, 128)
    for name, net, given, loss in (
        ("ResNet-18, two images of 64², SGD step", convolutions, images, lambda y: F.cross_entropy(y, kinds)),
        ("transformer of four layers, width 128, SGD step", attention, words, lambda y: (y * y).mean()),
    ):
        optimizer = ad.optim.SGD(net.parameters(), lr=1e-4)

        def step(net=net, given=given, loss=loss, optimizer=optimizer):
            optimizer.zero_grad()
            found = loss(net(given))
            found.backward()
            optimizer.step()
            return found.detach()

        yield name, step


def after(function, *before):
    """The function, or one that does something before each call."""
    return (lambda: (before[0](), function())[1]) if before else function


def tensors_of(value):
    """The tensors that a program returned, in order."""
    return [value] if isinstance(value, ad.Tensor) else list(value)


def same_bits(a, b):
    """Whether two results agree to the last bit."""
    return all(ad.equal(x, y) for x, y in zip(tensors_of(a), tensors_of(b), strict=True))


def measure(function, replayed, seconds=0.6):
    """Medians of both in microseconds, in samples of some milliseconds that take turns."""
    begin = time.perf_counter()
    function()
    once = time.perf_counter() - begin
    count = max(1, int(0.004 / once))
    times = [], []
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or time.perf_counter() < end:
        for f, into in ((function, times[0]), (replayed, times[1])):
            begin = time.perf_counter()
            for _ in range(count):
                f()
            into.append((time.perf_counter() - begin) / count * 1e6)
    return tuple(statistics.median(t) for t in times)


def replays(function):
    """The function under `ad.jit`, recorded."""
    jitted = ad.jit(function)
    for _ in range(6):
        jitted()
    if not jitted.stats()["replayed"]:
        raise AssertionError(f"not replayed: {jitted.stats()['reasons']}")
    return jitted


def show(name, function, replayed):
    """A line of the table."""
    plain, jit = measure(function, replayed)
    memory = peak(replayed) / max(1, peak(function))
    print(f"{name:48}{plain:14.1f}{jit:14.1f}{jit / plain:8.3f}{memory:8.2f}", flush=True)


class Holder:
    """Four tensors and four plain values."""

    def __init__(self, k):
        self.a, self.b, self.c, self.d = (ad.ones(1) for _ in range(4))
        self.p, self.q, self.r, self.s = k + 0.1, k + 0.2, k, str(k)


def per_call(function, *args, calls=2000, samples=15):
    """The least time of a call, in microseconds."""
    best = []
    for _ in range(samples):
        begin = time.perf_counter()
        for _ in range(calls):
            function(*args)
        best.append((time.perf_counter() - begin) / calls * 1e6)
    return min(best)


def latencies():
    """Print what the way into a replay takes, and what recording takes."""
    x = ad.ones(())

    def plain(x):
        return x + 1

    replayed = ad.jit(plain)
    holders = [Holder(k) for k in range(25)]

    def reaches(x):
        for h in holders:
            h.a, h.b, h.c, h.d, h.p, h.q, h.r, h.s
        return x + 1

    reaching = ad.jit(reaches)
    for _ in range(12):
        replayed(x), reaching(x)

    def never(x):
        time.perf_counter()
        return x + 1

    given_up = ad.jit(never)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):
            given_up(x)
    net = ad.nn.Sequential(ad.nn.Linear(64, 64), ad.nn.Tanh(), ad.nn.Linear(64, 10))
    inputs, weights = ad.randn(32, 64), list(net.parameters())

    def gradient(scale):
        return ad.autograd.grad((net(inputs) * scale).square().mean(), weights)

    eager = per_call(gradient, 0.3, calls=200)
    fixed, varying = [], []
    for times, scale in ((fixed, lambda k: 0.3), (varying, lambda k: 0.3 + 0.1 * k)):
        for _ in range(30):
            f = ad.jit(gradient)
            f(scale(0))
            for k in (1, 2, 3):
                begin = time.perf_counter()
                f(scale(k))
                times.append((time.perf_counter() - begin) * 1e6)

    @ad.jit
    def decides(y):
        for _ in range(20):
            y = y * 1.01
        for _ in range(20):
            y = y + 1 if y.sum() > 0 else y - 1
        return y

    high, low = ad.ones(4), -ad.ones(4)
    for _ in range(8):
        decides(high), decides(low)
    first = per_call(decides, high, calls=200)
    in_turns = per_call(lambda: (decides(high), decides(low)), calls=100) / 2

    @ad.jit
    def many(y):
        for _ in range(1000):
            y = y * factor
        return y

    factor = ad.full((), 1.0001)
    for _ in range(4):
        many(x)
    stats = many.stats()
    base = per_call(replayed, x)
    print(f"\n{'x + 1, a scalar, replayed':60}{base:8.2f} µs")
    print(
        f"{'100 tensors and 100 plain values reached, beyond that':60}{per_call(reaching, x) - base:8.2f} µs"
    )
    print(
        f"{'a function that cannot be replayed, beyond eager':60}{per_call(given_up, x) - per_call(never, x):8.2f} µs"
    )
    print(f"{'the other branch of a decision, over the first':60}{in_turns / first:8.2f}")
    print(f"{'a recorded instruction':60}{stats['bytes'] / 1000:8.0f} bytes")
    for name, times in (("", fixed), (", with a number that changes", varying)):
        second, third, fourth = (statistics.median(times[k::3]) / eager for k in range(3))
        what = f"recording {eager:.0f} µs of gradient{name}; planned and replayed"
        print(f"{what:60}{second:8.2f} and {third:.2f} calls; {fourth:.2f}")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="words that the names of programs contain")
    wanted = parser.parse_args().names
    ad.set_num_threads(1)
    ad.manual_seed(0)
    print(f"{'program':48}{'as it is, µs':>14}{'replayed, µs':>14}{'ratio':>8}{'memory':>8}")
    for name, function, *before in [*programs(), *networks()]:
        if wanted and not any(word in name for word in wanted):
            continue
        jitted = ad.jit(function)
        function, replayed = (after(f, *before) for f in (function, jitted))
        for _ in range(6):
            result = replayed()
        stats = jitted.stats()
        if not stats["replayed"]:
            print(f"{name:48} is not replayed: {next(iter(stats['reasons']))}")
            continue
        if "step" not in name and not same_bits(result, function()):
            raise AssertionError(f"{name}: a replay gives other bits")
        show(name, function, replayed)
    for name, row, written in by_hand():
        if not wanted or any(word in name for word in wanted):
            show(name, row, replays(written))
    if not wanted or "latency" in wanted:
        latencies()


if __name__ == "__main__":
    main()
