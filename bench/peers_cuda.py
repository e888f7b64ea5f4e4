#!/usr/bin/env python3
"""Attention of PyTorch on a GPU, for `runmax bench --device cuda --peers`: one line of JSON in, one line out.

docs/bench.md describes the protocol. Inputs are float32 in memory that the caller shares, of values that the problem's
type holds; they are copied to the GPU in that type. Times are the GPU's own: CUDA events, and replays of graphs.
"""
import contextlib
import sys

import peers_cpu  # the protocol, the problem, what a refusal is
from peers_cpu import Refusal

try:
    import torch
    from torch.nn import attention
except ImportError as error:
    peers_cpu.say({"error": f"PyTorch is not installed in {sys.executable}: {error}"})
    sys.exit(1)

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# math writes the scores and the weights to memory; beyond this it would measure the allocator.
MOST_MATRIX_BYTES = 16 << 30


class Torch:
    """scaled_dot_product_attention with one backend."""

    def __init__(self, backend, dtypes):
        self.backend = {"efficient": attention.SDPBackend.EFFICIENT_ATTENTION, "math": attention.SDPBackend.MATH,
                        "flash": attention.SDPBackend.FLASH_ATTENTION, "cudnn": attention.SDPBackend.CUDNN_ATTENTION}[backend]
        self.name = f"torch {backend}"
        self.kernel = f"scaled_dot_product_attention, {backend}"
        cudnn = f", cuDNN {torch.backends.cudnn.version()}" if backend == "cudnn" else ""
        self.computed_as = f"PyTorch {torch.__version__}{cudnn}"
        self.dtypes = dtypes

    def prepare(self, p, tensors):
        if p.softcap:
            raise Refusal("has no softcap")
        matrix = 4 * p.batch * p.query_heads * p.query_len * p.kv_len
        if self.backend == attention.SDPBackend.MATH and matrix > MOST_MATRIX_BYTES:
            raise Refusal(f"its matrix of {matrix >> 30} GiB is more than the {MOST_MATRIX_BYTES >> 30} that are tried")
        options = {"scale": p.scale, "enable_gqa": p.query_heads != p.kv_heads}
        left, right = p.window
        if p.causal != "none" and left < 0 and right < 0 and (p.query_len == p.kv_len or p.causal == "top_left"):
            options["is_causal"] = True
        else:
            seen = p.visible()
            if seen is not None:
                options["attn_mask"] = torch.from_numpy(seen).cuda()
        q, k, v = tensors

        attend = torch.nn.functional.scaled_dot_product_attention

        def run():
            return attend(q, k, v, **options)
        try:
            with self.chosen():
                run()
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise Refusal(" ".join(str(error).split())[:200]) from None
        return run


    @contextlib.contextmanager
    def chosen(self):
        """Calls inside use this backend. Entering takes Python some time, so it is done once for many calls."""
        with torch.inference_mode(), attention.sdpa_kernel(self.backend):
            yield


class Timer:
    """Events, a buffer of twice the L2, graphs."""

    def __init__(self):
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        cache = torch.cuda.get_device_properties(0).L2_cache_size or 64 << 20
        self.flush = torch.empty(2 * cache, dtype=torch.uint8, device="cuda")
        self.graphs = {}

    def between(self, work):
        self.begin.record()
        work()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e-3

    def time(self, key, run, way, runs):
        """Seconds of one run, and its result."""
        if way == "graph":
            return self.slope(key, run, runs)
        result = None

        def work():
            nonlocal result
            for _ in range(runs):
                result = run()
        if way == "cold":
            # The GPU waits a millisecond, so that the first launch is enqueued before the flush is done.
            torch.cuda._sleep(2_000_000)
            self.flush.zero_()
        else:
            for _ in range((runs + 4) // 5):
                run()
        return self.between(work) / runs, result

    def slope(self, key, run, nodes):
        """Seconds of a run as the difference of two graphs, one with `nodes` dependent runs more."""
        few = max(1, nodes // 10)
        if self.graphs.get("key") != (key, nodes):
            self.graphs.clear()
            made = []
            for count in (few, few + nodes):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(count):
                        result = run()
                made.append(graph)
                graph.replay()
            torch.cuda.synchronize()
            self.graphs = {"key": (key, nodes), "graphs": made, "result": result}
        times = [self.between(graph.replay) for graph in self.graphs["graphs"]]
        return (times[1] - times[0]) / nodes, self.graphs["result"]


PEERS = {"torch efficient": lambda: Torch("efficient", ("f32",)), "torch math": lambda: Torch("math", ("f32",)),
         "torch flash": lambda: Torch("flash", ("f16", "bf16")), "torch cudnn": lambda: Torch("cudnn", ("f16", "bf16"))}


class Server(peers_cpu.Server):
    """One problem at a time: opening the next one frees the last one's memory."""

    def __init__(self, wanted):
        super().__init__(wanted)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.timer = Timer()

    def open(self, line):
        self.problems, self.runs, self.last, self.timer.graphs = {}, {}, {}, {}
        torch.cuda.empty_cache()
        problem = peers_cpu.Problem(line)
        self.problems[problem.problem] = problem
        tensors = [torch.from_numpy(array).cuda().to(DTYPES[problem.dtype]) for array in (problem.q, problem.k, problem.v)]
        served, refused = [], list(self.missing)
        for peer in self.peers:
            if problem.dtype not in peer.dtypes:
                continue
            try:
                self.runs[problem.problem, peer.name] = peer, peer.prepare(problem, tensors)
                served.append({"name": peer.name, "kernel": peer.kernel, "computed_as": peer.computed_as})
            except Refusal as refusal:
                refused.append({"name": peer.name, "kernel": peer.kernel, "reason": str(refusal)})
        return {"implementations": served, "refused": refused}

    def time(self, line, runs):
        key = line["problem"], line["implementation"]
        peer, run = self.runs[key]
        with peer.chosen():
            seconds, self.last[key] = self.timer.time(key, run, line.get("way", "warm"), runs)
        return seconds

    def store(self, line):
        problem = self.problems[line["problem"]]
        torch.from_numpy(problem.o).copy_(self.last[line["problem"], line["implementation"]].float())
        return {"ok": True}


if __name__ == "__main__":
    if not torch.cuda.is_available():
        peers_cpu.say({"error": "PyTorch sees no GPU"})
        sys.exit(1)
    sys.exit(peers_cpu.main(PEERS, Server))
