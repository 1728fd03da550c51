"""Two threads that do something again and again at the same time: `beside`."""

import threading
import time


def beside(other, mine, seconds=0.4):
    """Do `mine` again and again while another thread does `other`."""
    stop = threading.Event()
    errors = []

    def work():
        try:
            while not stop.is_set():
                other()
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            mine()
    finally:
        stop.set()
        thread.join()
    assert not errors
