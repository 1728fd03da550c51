"""adjoint.hub: files of weights by address, from the folder of those that are there and from file:// addresses."""

import hashlib
import urllib.error

import pytest
from helpers import torch_values

import adjoint as ad
from adjoint import hub


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub, "_dir", None)
    return tmp_path


def served(folder, name="weights.pth"):
    path = folder / name
    ad.save({"weight": ad.arange(3.0)}, path)
    return path


def test_a_file_is_fetched_once(home):
    path = served(home)
    first = hub.load_state_dict_from_url(path.as_uri(), progress=False)
    kept = home / "home" / "hub" / "checkpoints" / "weights.pth"
    assert first["weight"].tolist() == [0.0, 1.0, 2.0] and kept.read_bytes() == path.read_bytes()
    path.unlink()
    assert hub.load_state_dict_from_url(path.as_uri())["weight"].tolist() == [0.0, 1.0, 2.0]
    assert [p.name for p in kept.parent.iterdir()] == ["weights.pth"]


def test_names_and_folders(home):
    path = served(home)
    hub.load_state_dict_from_url(
        path.as_uri(), model_dir=home / "models", file_name="other.pth", progress=False
    )
    assert (home / "models" / "other.pth").exists()
    assert hub.get_dir() == str(home / "home" / "hub")
    hub.set_dir(home / "elsewhere")
    hub.load_state_dict_from_url(path.as_uri(), progress=False)
    assert (home / "elsewhere" / "checkpoints" / "weights.pth").exists()


def test_a_digest_in_the_name_is_checked(home):
    path = served(home)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    good, bad = home / f"model-{digest[:8]}.pth", home / "model-00000000.pth"
    good.write_bytes(path.read_bytes())
    bad.write_bytes(path.read_bytes())
    hub.load_state_dict_from_url(good.as_uri(), check_hash=True, progress=False)
    with pytest.raises(RuntimeError, match=f'invalid hash value \\(expected "00000000", got "{digest}"\\)'):
        hub.load_state_dict_from_url(bad.as_uri(), check_hash=True, progress=False)
    assert not (home / "home" / "hub" / "checkpoints" / bad.name).exists()
    hub.load_state_dict_from_url(bad.as_uri(), progress=False)


def test_what_cannot_be_fetched_is_said(home):
    with pytest.raises(urllib.error.URLError, match="cannot be fetched.*Put the file there"):
        hub.load_state_dict_from_url((home / "absent.pth").as_uri())
    with pytest.raises(ValueError, match="has no file name; pass file_name"):
        hub.load_state_dict_from_url("https://localhost/")


def test_models_of_a_folder(home):
    (home / "hubconf.py").write_text(
        "from beside import value\ndef made(n=1):\n    'What it makes.'\n    return value + n\n_private = len\n"
    )
    (home / "beside.py").write_text("value = 10\n")
    assert hub.load(str(home), "made", n=5, source="local") == 15
    assert hub.list(str(home), source="local") == ["made"]
    assert hub.help(str(home), "made", source="local") == "What it makes."
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(str(home), "other", source="local")
    with pytest.raises(ValueError, match="would run code from the network"):
        hub.load("pytorch/vision", "resnet18")
    with pytest.raises(FileNotFoundError, match="there is no .*hubconf.py"):
        hub.load(str(home / "empty"), "made", source="local")


def test_under_torch_s_names(home):
    path = served(home)
    program = f"""
        import torch
        from torch.utils.model_zoo import load_url, tqdm
        from torch.hub import load_state_dict_from_url, _get_torch_home
        show(load_url({path.as_uri()!r}, progress=False)["weight"].tolist())
        show(torch.hub.load_state_dict_from_url is load_state_dict_from_url, list(tqdm([1, 2], disable=True)))
        """
    assert torch_values(program) == [[0.0, 1.0, 2.0], (True, [1, 2])]
