"""That there is no CUDA device."""

from adjoint.as_torch.standins.testing._internal._names import name

TEST_CUDA = TEST_MULTIGPU = TEST_CUDNN = False


def __getattr__(wanted):
    return name("common_cuda", wanted)
