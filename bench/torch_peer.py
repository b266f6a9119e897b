#!/usr/bin/env python3
"""PyTorch beside bench_cpu: a run and its seconds for every line of the standard input, at whose
end the last result is saved.

usage: torch_peer.py NAME THREADS RESULT.npy OPERAND.npy...
Needs Debian's python3-torch; exits with 3 if there is none.
"""

import sys
import time

try:
    import numpy
    import torch
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

# The library's threads spin for so long after a run, on cores that what is timed next needs.
SPIN_SECONDS = 0.005


def main():
    name, threads, result, *operands = sys.argv[1:]
    torch.set_num_threads(int(threads))
    x, *weights = (torch.from_numpy(numpy.load(path)) for path in operands)
    run = {
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: torch.nn.functional.layer_norm(x, x.shape[-1:], *weights, eps=1e-5),
        "rms_norm": lambda: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * weights[0],
        "matmul": lambda: x @ weights[0],
        "conv2d": lambda: torch.nn.functional.conv2d(x, *weights, padding=1),
        "attention": lambda: torch.softmax(
            x @ weights[0].transpose(-1, -2) / x.shape[-1] ** 0.5, -1) @ weights[1],
    }[name]
    y = x
    print("ready", flush=True)
    with torch.no_grad():
        for _ in sys.stdin:
            start = time.perf_counter()
            y = run()
            seconds = time.perf_counter() - start
            time.sleep(SPIN_SECONDS)
            print(seconds, flush=True)
    numpy.save(result, y.numpy())


if __name__ == "__main__":
    main()
