"""A peer of `runmax bench` in plain numpy: numpy_peer.py ROOT [honest|wrong|dies|silent].

It uses the server of bench/peers_cpu.py, so that the protocol is tested where no other library is installed.
"""
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "bench"))
BEHAVIOUR = sys.argv[2] if len(sys.argv) > 2 else "honest"
sys.argv = sys.argv[:1]
sys.dont_write_bytecode = True

if BEHAVIOUR == "silent":
    print("good morning", flush=True)
    sys.exit(0)

import numpy  # noqa: E402
import peers_cpu  # noqa: E402


class Plain:
    name, kernel, computed_as = "numpy", "plain", "f64"

    def prepare(self, p):
        if p.backward:
            raise peers_cpu.Refusal("has no backward")
        if p.head_dim == 48:
            raise peers_cpu.Refusal("has no 48")
        group = p.query_heads // p.kv_heads
        seen = p.visible()

        def run():
            if BEHAVIOUR == "dies":
                os._exit(3)
            out = numpy.zeros(p.o.shape)
            for b in range(p.batch):
                for h in range(p.query_heads):
                    scores = p.scale * (p.q[b, h].astype(float) @ p.k[b, h // group].T.astype(float))
                    if seen is not None:
                        scores[~seen] = -numpy.inf
                    weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
                    out[b, h] = (weights / weights.sum(axis=1, keepdims=True)) @ p.v[b, h // group]
            if BEHAVIOUR == "wrong":
                out[0, 0, 0, 1] += 0.01
            return out
        return run

    def threads(self, count):
        pass

    def store(self, p, result):
        p.o[...] = result


sys.exit(peers_cpu.main({"numpy": Plain}, peers_cpu.Server))
