"""Functions of tensors as SciPy's solvers want them: of one flat NumPy array, with exact derivatives.

    >>> import adjoint as ad
    >>> from adjoint import scipy as ads
    >>> from scipy.optimize import minimize
    >>> f = ads.value_and_grad(lambda p: ((p["a"] - 3) ** 2).sum() + (p["b"] * p["a"][0] - 6) ** 2,
    ...                        {"a": ad.zeros(2), "b": ad.tensor(1.0)})
    >>> found = minimize(f, f.x0, jac=True, method="BFGS")
    >>> {name: x.round(decimals=3).tolist() for name, x in f.unravel(found.x).items()}
    {'a': [3.0, 3.0], 'b': 2.0}

Parameters may be any nested container of tensors: `like` is an example of it, `x0` its values as one array of doubles,
`unravel` the way back. Without `like` a function takes the array as one tensor of doubles. Everything is computed in double
precision. SciPy itself is not imported here; `minimize`, `least_squares` and `solve_ivp` take the functions as they are.

`value_and_grad` is for first-order methods, `Objective` has Hessians and their products with vectors as well, `Residuals` is
for `least_squares` and `root`, `RightHandSide` for `solve_ivp`. Start reading at `_Flat`.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import tree
from adjoint._publish.register import listing
from adjoint._types import Any, Callable, Tensor
from adjoint.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize

__all__ = ["Objective", "Residuals", "RightHandSide", "value_and_grad"]
__dir__ = listing(__name__)


class _Flat:
    """A function of a container as a function of one array.

    Attributes
    ----------
    x0 : numpy.ndarray of float64, shape (n,)
        The values of `like`, one leaf after another; None where there is no `like`.
    """

    def __init__(self, f: Any, like: Any = None) -> None:
        if not callable(f):
            raise TypeError(f"expected a function, but got {type(f).__name__}: {f!r}")
        self._f = f
        self._spec: Any = None
        self._shapes = self.x0 = None
        if like is None:
            return
        leaves, self._spec = tree.flatten(like)
        for leaf in leaves:
            if isinstance(leaf, ad.Tensor) and leaf.is_complex():
                raise TypeError(
                    "like: SciPy's solvers take real numbers, but found a complex tensor; pass its real view (view_as_real)"
                )
        try:
            tensors = [ad.as_tensor(leaf).detach().to(ad.float64) for leaf in leaves]
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"like: expected a container of tensors and numbers: {error}") from None
        self._shapes = [tuple(t.shape) for t in tensors]
        self.x0 = (
            ad.cat([t.reshape(-1) for t in tensors]).numpy() if tensors else ad.zeros(0).double().numpy()
        )

    def unravel(self, x):
        """The container whose values are the elements of `x`, a tensor or an array; tensors of doubles."""
        x = ad.as_tensor(x)
        x = x.to(ad.float64) if x.dtype is not ad.float64 else x
        if self._shapes is None:
            return x
        sizes = [math.prod(shape) for shape in self._shapes]
        if x.numel() != sum(sizes) or x.dim() != 1:
            raise ValueError(
                f"expected a flat array of {sum(sizes)} elements, as x0 is, but got shape {tuple(x.shape)}"
            )
        parts = [part.reshape(shape) for part, shape in zip(x.split(sizes), self._shapes)]
        return tree.unflatten(parts, self._spec)

    def _tensor(self, x):
        # Solvers write into their arrays: what is computed from them must not change later.
        return ad.tensor(x, dtype=ad.float64)


class Objective(_Flat):
    """A function whose value is one number, with its derivatives, for `scipy.optimize.minimize`.

    Parameters
    ----------
    f : function of a container of tensors (and of `args`), whose value is a tensor of one element
    like : container of tensors, optional
        What `f` takes.

    Examples
    --------
    >>> from adjoint import scipy as ads
    >>> from scipy.optimize import minimize
    >>> rosenbrock = ads.Objective(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())
    >>> found = minimize(rosenbrock.value, [-1.2, 1, -1.2, 1], method="trust-ncg", jac=rosenbrock.grad, hessp=rosenbrock.hessp)
    >>> found.x.round(2).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def _of(self, x, args):
        value = self._f(self.unravel(x), *args)
        if not isinstance(value, ad.Tensor) or value.numel() != 1 or value.is_complex():
            found = (
                f"shape {tuple(value.shape)}, {value.dtype}"
                if isinstance(value, ad.Tensor)
                else type(value).__name__
            )
            raise TypeError(f"expected the function to return a real tensor of one element, but got {found}")
        return value.reshape(()).to(ad.float64)

    def value(self, x: Tensor, *args: Any) -> Any:
        """f(x), a float.

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        float
        """
        with ad.no_grad():
            return self._of(self._tensor(x), args).item()

    def value_and_grad(self, x: Tensor, *args: Any) -> Any:
        """f(x) and its gradient, an array of the shape of `x`: what ``jac=True`` asks for.

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        (float, array)
        """
        gradient, value = grad_and_value(lambda x: self._of(x, args))(self._tensor(x))
        return value.item(), gradient.numpy()

    def grad(self, x: Tensor, *args: Any) -> Any:
        """The gradient, an array of the shape of `x`.

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        return self.value_and_grad(x, *args)[1]

    def hess(self, x: Tensor, *args: Any) -> Any:
        """The Hessian, an array of shape (n, n): forward mode over reverse mode.

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        return hessian(lambda x: self._of(x, args))(self._tensor(x)).numpy()

    def hessp(self, x: Tensor, p: float, *args: Any) -> Any:
        """The Hessian times `p`, without the Hessian.

        Parameters
        ----------
        x, p : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        gradient = grad(lambda x: self._of(x, args))
        return jvp(gradient, (self._tensor(x),), (self._tensor(p),))[1].numpy()

    def hess_operator(self, x: Tensor, *args: Any) -> Any:
        """The Hessian at `x` as a `scipy.sparse.linalg.LinearOperator`, linearised once.

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
        """
        from scipy.sparse.linalg import LinearOperator

        x = self._tensor(x)
        _, product = linearize(grad(lambda x: self._of(x, args)), x)
        return LinearOperator(
            (x.numel(),) * 2, matvec=lambda p: product(self._tensor(p).reshape(x.shape)).numpy(), dtype=float
        )


class _ValueAndGrad(Objective):
    def __call__(self, x: Any, *args: Any) -> Any:
        return self.value_and_grad(x, *args)


def value_and_grad(f: Callable[..., Any], like: Any = None) -> Any:
    """`f` as `scipy.optimize.minimize(…, jac=True)` calls it: an `Objective` that is a function of an array.

    Parameters
    ----------
    f : function of a container of tensors (and of `args`), whose value is a tensor of one element
    like : container of tensors, optional
        What `f` takes; ``.x0`` is its values, ``.unravel(x)`` a container of the same form.

    Returns
    -------
    Objective
        Returns the value as a float and the gradient as an array.

    Examples
    --------
    >>> from adjoint import scipy as ads
    >>> f = ads.value_and_grad(lambda x: (x**3).sum())
    >>> f([1.0, 2.0])
    (9.0, array([ 3., 12.]))
    """
    return _ValueAndGrad(f, like)


def _jacobian(f, x, rows):
    """By the mode that takes fewer passes."""
    return (jacfwd if rows >= x.numel() else jacrev)(f)(x).numpy()


class Residuals(_Flat):
    """Residuals and their Jacobian, for `scipy.optimize.least_squares` and `scipy.optimize.root`.

    Parameters
    ----------
    f : function of a container of tensors (and of `args`), whose value is a container of real tensors
        All their elements are the residuals.
    like : container of tensors, optional
        What `f` takes.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import scipy as ads
    >>> from scipy.optimize import least_squares
    >>> t = ad.linspace(0, 4, 20).double()
    >>> y = 2.5 * (-1.3 * t).exp()
    >>> r = ads.Residuals(lambda p: p["size"] * (-p["rate"] * t).exp() - y, {"size": 1.0, "rate": 1.0})
    >>> found = least_squares(r.value, r.x0, jac=r.jac)
    >>> {name: round(x.item(), 6) for name, x in r.unravel(found.x).items()}
    {'size': 2.5, 'rate': 1.3}
    """

    def _of(self, x, args):
        leaves = tree.leaves(self._f(self.unravel(x), *args))
        for leaf in leaves:
            if not isinstance(leaf, ad.Tensor) or leaf.is_complex():
                raise TypeError(
                    f"expected the function to return real tensors, but got {type(leaf).__name__}"
                )
        return ad.cat([leaf.to(ad.float64).reshape(-1) for leaf in leaves])

    def value(self, x: Tensor, *args: Any) -> Any:
        """The residuals, an array of shape (m,).

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        with ad.no_grad():
            return self._of(self._tensor(x), args).numpy()

    __call__ = value

    def jac(self, x: Tensor, *args: Any) -> Any:
        """The Jacobian, an array of shape (m, n).

        Parameters
        ----------
        x : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        rows = len(self.value(x, *args))
        return _jacobian(lambda x: self._of(x, args), self._tensor(x), rows)


class RightHandSide(_Flat):
    """The right-hand side of y' = f(t, y) and its Jacobian by y, for `scipy.integrate.solve_ivp`.

    Parameters
    ----------
    f : function of t, a tensor of one element, and of a container of tensors (and of `args`)
        Its value has the form of the container.
    like : container of tensors, optional
        What `f` takes as y.

    Examples
    --------
    >>> from adjoint import scipy as ads
    >>> from scipy.integrate import solve_ivp
    >>> def van_der_pol(t, y):
    ...     return {"x": y["v"], "v": 1000 * (1 - y["x"] ** 2) * y["v"] - y["x"]}
    >>> f = ads.RightHandSide(van_der_pol, {"x": 2.0, "v": 0.0})
    >>> solution = solve_ivp(f, (0, 1), f.x0, method="Radau", jac=f.jac)
    >>> solution.success, round(float(solution.y[0, -1]), 4)
    (True, 1.9993)
    """

    def _of(self, t, y, args):
        slope = self._f(ad.tensor(t, dtype=ad.float64), self.unravel(y), *args)
        leaves, spec = tree.flatten(slope)
        if self._spec is not None and spec != self._spec:
            raise TypeError(
                f"expected the right-hand side to have the form of y, {self._spec}, but got {spec}"
            )
        shapes = self._shapes or [tuple(y.shape)]
        for leaf, shape in zip(leaves, shapes, strict=True):
            if tuple(leaf.shape) != shape:
                raise ValueError(
                    f"expected the right-hand side to have the shape of y, {shape}, but got {tuple(leaf.shape)}"
                )
        return ad.cat([leaf.to(ad.float64).reshape(-1) for leaf in leaves])

    def __call__(self, t: Any, y: Tensor, *args: Any) -> Any:
        """f(t, y), an array of shape (n,)."""
        with ad.no_grad():
            return self._of(t, self._tensor(y), args).numpy()

    def jac(self, t: Any, y: Tensor, *args: Any) -> Any:
        """The Jacobian of f by y, an array of shape (n, n).

        Parameters
        ----------
        t : float
        y : array
        *args
            What the function takes besides.

        Returns
        -------
        array
        """
        y = self._tensor(y)
        return _jacobian(lambda y: self._of(t, y, args), y, y.numel())
