"""What the processes of test_multiprocessing.py run: found by name in a process that has been spawned."""

import os
import signal


def fill(tensors, value):
    for tensor in tensors:
        tensor.fill_(value)


def add_up(tensors, answers):
    answers.put([tensor.sum().item() for tensor in tensors])
    for tensor in tensors:
        tensor.add_(1)


def answer(questions, answers):
    tensor = questions.get()
    answers.put((tensor.is_shared(), type(tensor).__name__, tensor.requires_grad, tensor.tolist()))
    tensor.data.add_(1)
    answers.put("written")
    questions.get()


def send(pipe, tensor):
    pipe.send(tensor)
    pipe.recv()


def double(tensor):
    return tensor * 2


def train(i, model, count):
    import adjoint as ad

    for _ in range(count):
        with ad.no_grad():
            model.weight[i] += 1


def fail(i):
    if i == 1:
        raise ValueError("the reason")
    import time

    time.sleep(60)


def leave(i, how):
    if how < 0:
        os.kill(os.getpid(), -how)
        signal.pause()
    os._exit(how)
