"""Pretrained weights by URL: from the cache folder, else from the network.

The folder is torch's own (``$TORCH_HOME/hub/checkpoints``, else ``~/.cache/torch/hub/checkpoints``), so that what torch has
loaded is there. Nothing that a file names is run, unless that is asked for. Start reading at `load_state_dict_from_url`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint._types import Iterator

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
__dir__ = listing(__name__)

#: A file whose name ends so has that for the start of its SHA-256: resnet18-f37072fd.pth.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_list, _help = list, help
_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The cache folder: what `set_dir` was given, else ``$TORCH_HOME/hub`` or ``~/.cache/torch/hub``.

    Returns
    -------
    str

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.hub.get_dir().endswith("hub")
    True
    """
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: Any) -> None:
    """Set the cache folder.

    Parameters
    ----------
    d : path

    Examples
    --------
    >>> import adjoint as ad
    >>> before = ad.hub.get_dir()
    >>> ad.hub.set_dir("/tmp/models")
    >>> ad.hub.get_dir()
    '/tmp/models'
    >>> ad.hub.set_dir(before)
    """
    global _dir
    _dir = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str,
    model_dir: Any = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: Any = None,
    weights_only: bool = True,
) -> Any:
    """Load weights from a URL; the file is downloaded unless it is in the cache folder.

    Parameters
    ----------
    url : str
        ``https://…``, or ``file://…``.
    model_dir : str, optional
        The folder of files; by default `get_dir` and "checkpoints".
    map_location, weights_only
        Like those of `load`.
    progress : bool
        Show a bar while the file is fetched, if tqdm is installed.
    check_hash : bool
        Compare the file's SHA-256 with the digits in its name, as in ``resnet18-f37072fd.pth``.
    file_name : str, optional
        The name in the folder; by default the last part of the address.

    Returns
    -------
    object
        What `load` reads from the file.

    Raises
    ------
    urllib.error.URLError
        The file is not in the folder, and cannot be fetched.
    RuntimeError
        The file is not the one that its name says.

    Examples
    --------
    >>> import pathlib, tempfile, adjoint as ad
    >>> from adjoint.hub import load_state_dict_from_url
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ad.save({"weight": ad.ones(2)}, folder + "/served.pth")
    ...     address = pathlib.Path(folder, "served.pth").as_uri()
    ...     load_state_dict_from_url(address, model_dir=folder + "/kept")
    {'weight': tensor([1., 1.])}
    """
    from urllib.parse import unquote, urlparse

    from adjoint.serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(unquote(urlparse(url).path))
    if not name:
        raise ValueError(f"load_state_dict_from_url(): {url!r} has no file name; pass file_name")
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return load(path, map_location=map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: Any, hash_prefix: Any = None, progress: bool = True) -> None:
    """Download a URL to a file, which appears complete or not at all.

    Parameters
    ----------
    url : str
    dst : path
    hash_prefix : str, optional
        What the file's SHA-256 must begin with.
    progress : bool
        Show a bar, if tqdm is installed.

    Raises
    ------
    urllib.error.URLError
        It cannot be fetched.
    RuntimeError
        Its SHA-256 does not begin with `hash_prefix`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from adjoint.hub import download_url_to_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     served, kept = pathlib.Path(folder, "served"), pathlib.Path(folder, "kept")
    ...     _ = served.write_text("numbers")
    ...     download_url_to_file(served.as_uri(), kept, progress=False)
    ...     kept.read_text()
    'numbers'
    """
    import tempfile
    from hashlib import sha256
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    dst = os.path.abspath(os.path.expanduser(dst))
    try:
        answer = urlopen(Request(url, headers={"User-Agent": "torch.hub"}), timeout=60)
    except HTTPError:
        raise
    except URLError as error:
        raise URLError(
            f"{url} is not at {dst} and cannot be fetched: {error.reason}. Put the file there, or give a file:// address"
        ) from None
    digest, partial = sha256(), tempfile.NamedTemporaryFile(dir=os.path.dirname(dst), delete=False)
    try:
        with answer, partial, _bar(answer, progress) as bar:
            while block := answer.read(1 << 17):
                partial.write(block)
                digest.update(block)
                bar.update(len(block))
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}"): the file at '
                f"{url} does not match the hash in its name"
            )
        os.chmod(partial.name, 0o644)
        os.replace(partial.name, dst)
    finally:
        if os.path.exists(partial.name):
            os.remove(partial.name)


class _NoBar:
    """What stands for a bar where tqdm is not installed."""

    def __init__(self, iterable: Any = (), **options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None

    def update(self, n=1):
        pass

    def set_postfix(self, *values, **named):
        pass

    def close(self):
        pass


def __getattr__(name):
    if name != "tqdm":
        raise AttributeError(f"module 'adjoint.hub' has no attribute {name!r}")
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoBar
    return tqdm


def _bar(answer, progress):
    length = answer.headers.get("Content-Length")
    return __getattr__("tqdm")(
        total=int(length) if length else None,
        disable=not progress,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
    )


# --- repositories ----------------------------------------------------------------------------------------------------


def _configuration(folder, source):
    """The module hubconf.py of a folder."""
    from importlib.util import module_from_spec, spec_from_file_location

    if source != "local":
        raise ValueError(
            f"{switches.package}.hub: source={source!r} would run code from the network, which Adjoint does not do. Clone the "
            'repository, and give its folder with source="local"'
        )
    path = os.path.join(os.path.expanduser(folder), "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{switches.package}.hub: there is no {path}")
    import sys

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec = spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@ignores(
    "force_reload", "skip_validation", "trust_repo", "verbose", why="a folder is taken as it is", warns=False
)
def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
    source: str = "github",
) -> Any:
    """The entry points of the hubconf.py of a folder (``source="local"``).

    Parameters
    ----------
    github : str
        The folder.
    force_reload, skip_validation, trust_repo, verbose
        Without effect: a folder is taken as it is.
    source : str
        'local'; nothing is fetched and run from the network.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import os, tempfile
    >>> from adjoint import hub
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def twice(x):\\n    'Two of it.'\\n    return 2 * x\\n")
    ...     hub.list(folder, source="local")
    ['twice']
    """
    module = _configuration(github, source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def _entry(folder, source, name):
    module = _configuration(folder, source)
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


@ignores("force_reload", "skip_validation", "trust_repo", why="a folder is taken as it is", warns=False)
def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    source: str = "github",
) -> Any:
    """The documentation of an entry point of a folder's hubconf.py (``source="local"``).

    Parameters
    ----------
    github : str
        The folder.
    model : str
    force_reload, skip_validation, trust_repo
        Without effect: a folder is taken as it is.
    source : str
        'local'; nothing is fetched and run from the network.

    Returns
    -------
    str

    Examples
    --------
    >>> import os, tempfile
    >>> from adjoint import hub
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def twice(x):\\n    'Two of it.'\\n    return 2 * x\\n")
    ...     hub.help(folder, "twice", source="local")
    'Two of it.'
    """
    return _entry(github, source, model).__doc__


@ignores(
    "trust_repo", "force_reload", "verbose", "skip_validation", why="a folder is taken as it is", warns=False
)
def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call an entry point of a folder's hubconf.py (``source="local"``).

    Parameters
    ----------
    repo_or_dir : str
        The folder.
    model : str
    *args, **kwargs
        What the function of that name takes.
    force_reload, skip_validation, trust_repo, verbose
        Without effect: a folder is taken as it is.
    source : str
        'local'; nothing is fetched and run from the network.

    Returns
    -------
    object
        What the function returns.

    Examples
    --------
    >>> import os, tempfile
    >>> from adjoint import hub
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def twice(x):\\n    'Two of it.'\\n    return 2 * x\\n")
    ...     hub.load(folder, "twice", 21, source="local")
    42
    """
    return _entry(repo_or_dir, source, model)(*args, **kwargs)
