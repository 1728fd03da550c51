"""How `functional` treats missing gradients, and which complex results it refuses."""

from __future__ import annotations

from adjoint._switches import switches

_NOT_STRICT = "This is not allowed in strict mode"

# The same for a product that came back as None; "create_graph" where it came back without a graph.
_INDEPENDENT = {
    "back": f"The output of the user-provided function is independent of input {{i}}. {_NOT_STRICT}.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the "
    f"double backward trick to compute forward mode gradients. {_NOT_STRICT}.",
    "double_back": f"The jacobian of the user-provided function is independent of input {{i}}. {_NOT_STRICT}.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    f"{_NOT_STRICT} as it prevents from using the double backward trick to replace forward mode AD.",
}


def _zeros_for_none(products, like, strict, create_graph, stage):
    from adjoint import zeros_like

    for i, product in enumerate(products):
        if not strict:
            break
        if product is None:
            raise RuntimeError(_INDEPENDENT[stage].format(i=i))
        if create_graph and not product.requires_grad:
            what = "hessian" if stage.startswith("double") else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. {_NOT_STRICT} when "
                "create_graph=True."
            )
    return tuple(
        zeros_like(x.detach()) if product is None else product
        for x, product in zip(like, products, strict=True)
    )


def _refuse_complex(outputs):
    for y in outputs:
        if y.is_complex():
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {y.dtype}: one row per output does "
                "not hold the derivative of a complex function. Give jacobian the real and the imaginary part "
                f"({switches.package}.view_as_real), or pass vectorize=True for the gradients of the real part alone."
            )
