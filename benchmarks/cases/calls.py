"""Calls that name their arguments, or of which the arguments choose the form: what reading arguments costs."""

from benchmarks.harness import case

CALLS = {
    "add(x, y)": "m.add(x, y)",
    "add(x, y, alpha=2)": "m.add(x, y, alpha=2)",
    "z.add_(y, alpha=2.0)": "z.add_(y, alpha=2.0)",
    "clamp with tensors": "m.clamp(x, z, y)",
    "clamp(min=0.0)": "x.clamp(min=0.0)",
    "var(unbiased=False)": "x.var(unbiased=False)",
    "std(correction=0)": "x.std(correction=0)",
    "sum(dim=1)": "a.sum(dim=1)",
    "mean(dim=1, keepdim=True)": "a.mean(dim=1, keepdim=True)",
    "softmax(dim=1)": "a.softmax(dim=1)",
    "max()": "a.max()",
    "max(dim=1)": "a.max(dim=1)",
    "max(x, y)": "m.max(x, y)",
    "where with a number": "m.where(c, x, 0.0)",
    "addmm(beta=, alpha=)": "m.addmm(s, a, b, beta=0.5, alpha=2)",
    "transpose(dim0=, dim1=)": "a.transpose(dim0=0, dim1=1)",
    "div(rounding_mode=)": "m.div(x, y, rounding_mode='floor')",
    "round(decimals=1)": "x.round(decimals=1)",
    "split(split_size=1)": "a.split(1)",
    "cat(dim=0)": "m.cat((x, y), dim=0)",
}


def _call(expression):
    def make(m):
        scope = {
            "m": m,
            "x": m.tensor([1.0, 2.0, 3.0]),
            "y": m.tensor([2.0, 2.0, 2.0]),
            "z": m.tensor([0.0, 0.0, 0.0]),
            "a": m.ones(2, 3),
            "b": m.ones(3, 2),
            "s": m.ones(2, 2),
            "c": m.tensor([True, False, True]),
        }
        body = f"def run():\n    for _ in range(100):\n        result = {expression}\n    return result if isinstance(result, m.Tensor) else result[0]\n"
        exec(body, scope)  # noqa: S102 - our own text, just above
        return scope["run"]

    return make


for _name, _expression in CALLS.items():
    case(f"100 × {_name}", group="calls")(_call(_expression))
