#!/usr/bin/env python3
"""Attention of PyTorch and ggml on the CPU, for `runmax bench --peers`: one line of JSON in, one line out.

docs/bench.md describes the protocol. Inputs are float32 in memory that the caller shares, (batch, heads, length, dim)
packed. A peer's time is that of calling it from here, so that a few microseconds of Python count.
"""
import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import math
import mmap
import os
import sys
import time

SIMD = os.environ.get("RUNMAX_BENCH_SIMD", "")
if SIMD:
    # Each library has its own name for "no further than this", and reads it when it loads.
    known = {"AVX2": ("avx2", "AVX2", "AVX2"), "SSE4": ("default", "SSE41", "SSE4_2")}
    if SIMD not in known:
        print(json.dumps({"error": f"no peer can be held to {SIMD}"}), flush=True)
        sys.exit(1)
    os.environ["ATEN_CPU_CAPABILITY"], os.environ["ONEDNN_MAX_CPU_ISA"], os.environ["MKL_ENABLE_INSTRUCTIONS"] = known[SIMD]

# What a library prints while it loads must not stand among the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import numpy  # noqa: E402


class Refusal(Exception):
    """Why a peer does not serve a problem."""


class Problem:
    """A problem and its arrays in shared memory."""

    def __init__(self, line):
        self.__dict__.update({name: line[name] for name in (
            "problem", "batch", "query_heads", "kv_heads", "query_len", "kv_len", "head_dim", "value_dim", "scale",
            "causal", "window", "softcap", "dtype")})
        file = os.open(line["memory"], os.O_RDWR)
        self.memory = mmap.mmap(file, line["bytes"])
        os.close(file)

        def array(name, heads, length, dim):
            count = self.batch * heads * length * dim
            flat = numpy.frombuffer(self.memory, numpy.float32, count, line[name])
            return flat.reshape(self.batch, heads, length, dim)
        self.q = array("q", self.query_heads, self.query_len, self.head_dim)
        self.k = array("k", self.kv_heads, self.kv_len, self.head_dim)
        self.v = array("v", self.kv_heads, self.kv_len, self.value_dim)
        self.backward = line["pass"] == "backward"
        if self.backward:
            self.dout = array("dout", self.query_heads, self.query_len, self.value_dim)
            self.dq, self.dk = array("dq", *self.q.shape[1:]), array("dk", *self.k.shape[1:])
            self.dv = array("dv", *self.v.shape[1:])
        else:
            self.o = array("o", self.query_heads, self.query_len, self.value_dim)

    def visible(self):
        """Which keys each query sees, or None if it sees all."""
        left, right = self.window
        if self.causal == "none" and left < 0 and right < 0:
            return None
        diagonal = 0 if self.causal == "top_left" else self.kv_len - self.query_len
        distance = numpy.arange(self.kv_len)[None, :] - (numpy.arange(self.query_len)[:, None] + diagonal)
        seen = numpy.ones(distance.shape, bool)
        if self.causal != "none":
            seen &= distance <= 0
        if left >= 0:
            seen &= distance >= -left
        if right >= 0:
            seen &= distance <= right
        return seen


class Torch:
    """PyTorch's scaled_dot_product_attention with one backend."""

    def __init__(self, backend):
        import torch
        from torch.nn import attention
        self.torch = torch
        self.name = f"torch {backend}"
        self.backend = {"flash": attention.SDPBackend.FLASH_ATTENTION, "math": attention.SDPBackend.MATH}[backend]
        self.kernel = f"scaled_dot_product_attention, {backend}"
        self.computed_as = f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
        self.context = attention.sdpa_kernel

    def prepare(self, p):
        torch = self.torch
        if p.softcap:
            raise Refusal("has no softcap")
        q, k, v = (torch.from_numpy(array) for array in (p.q, p.k, p.v))
        options = {"scale": p.scale, "enable_gqa": p.query_heads != p.kv_heads}
        left, right = p.window
        if p.causal != "none" and left < 0 and right < 0 and (p.query_len == p.kv_len or p.causal == "top_left"):
            options["is_causal"] = True
        else:
            seen = p.visible()
            if seen is not None:
                options["attn_mask"] = torch.from_numpy(seen)
        attend = torch.nn.functional.scaled_dot_product_attention
        context, backend = self.context, self.backend

        def forward():
            with torch.inference_mode(), context(backend):
                return attend(q, k, v, **options)

        def prepared_backward():
            inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
            dout = torch.from_numpy(p.dout)
            with context(backend):
                out = attend(*inputs, **options)
            return lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True)
        try:
            run = prepared_backward() if p.backward else forward
            run()
        except RuntimeError as error:
            raise Refusal(" ".join(str(error).split())[:200]) from None
        return run

    def threads(self, count):
        self.torch.set_num_threads(count)

    def store(self, p, result):
        outputs = zip((p.dq, p.dk, p.dv), result) if p.backward else ((p.o, result),)
        for array, tensor in outputs:
            self.torch.from_numpy(array).copy_(tensor)


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """ggml's flash_attn_ext on the CPU, all in float32.

    The package's own Python declarations are of an older ggml than the library it builds, so the few functions that
    are needed are declared here.
    """
    F32, F16, PREC_F32 = 0, 1, 10

    def __init__(self):
        if SIMD:
            raise Refusal(f"is compiled for this processor and cannot be held to {SIMD}")
        spec = importlib.util.find_spec("ggml")
        if spec is None:
            raise ImportError("no package ggml-py")
        folder = os.path.join(os.path.dirname(spec.origin), "lib")
        base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        cpu = ctypes.CDLL(os.path.join(folder, "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        pointer, size, count, real = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_float
        for library, name, result, *arguments in (
                (base, "ggml_init", pointer, InitParams), (base, "ggml_free", None, pointer),
                (base, "ggml_new_tensor_4d", pointer, pointer, ctypes.c_int, count, count, count, count),
                (base, "ggml_flash_attn_ext", pointer, pointer, pointer, pointer, pointer, pointer, real, real, real),
                (base, "ggml_flash_attn_ext_set_prec", None, pointer, ctypes.c_int),
                (base, "ggml_new_graph", pointer, pointer), (base, "ggml_build_forward_expand", None, pointer, pointer),
                (base, "ggml_backend_tensor_alloc", ctypes.c_int, pointer, pointer, pointer),
                (base, "ggml_backend_cpu_buffer_from_ptr", pointer, pointer, size),
                (base, "ggml_backend_graph_compute", ctypes.c_int, pointer, pointer),
                (cpu, "ggml_backend_cpu_init", pointer),
                (cpu, "ggml_backend_cpu_set_n_threads", None, pointer, ctypes.c_int)):
            function = getattr(library, name)
            function.restype, function.argtypes = result, list(arguments)
            setattr(self, name.removeprefix("ggml_"), function)
        self.name = "ggml"
        self.kernel = "flash_attn_ext"
        self.computed_as = f"ggml {importlib.metadata.version('ggml-py')}, compiled here for this processor"
        self.backend = self.backend_cpu_init()
        self.held = []

    def tensor(self, context, array, kind):
        made = self.new_tensor_4d(context, kind, *array.shape[::-1])
        self.place(made, array)
        return made

    def place(self, tensor, array):
        address = array.ctypes.data
        if self.backend_tensor_alloc(self.backend_cpu_buffer_from_ptr(address, array.nbytes), tensor, address) != 0:
            raise Refusal("takes no memory of others")
        self.held.append(array)

    @staticmethod
    def pages(shape, kind):
        """An array that begins on a page, as ggml asks for."""
        elements = math.prod(shape)
        return numpy.frombuffer(mmap.mmap(-1, max(elements * numpy.dtype(kind).itemsize, 1)), kind, elements).reshape(shape)

    def prepare(self, p):
        if p.backward:
            raise Refusal("has no gradient of this on the CPU")
        if p.query_heads % p.kv_heads:
            raise Refusal("query heads are no multiple of KV heads")
        if 0 in p.q.shape + p.k.shape + p.v.shape:
            raise Refusal("has no empty tensors")
        context = self.init(InitParams(1 << 20, None, True))
        mask = None
        seen = p.visible()
        if seen is not None:
            # Rows are filled up as kernels may ask for.
            rows = -(-p.query_len // 64) * 64
            array = self.pages((1, 1, rows, p.kv_len), numpy.float16)
            array[0, 0, :p.query_len][~seen] = -numpy.inf
            mask = self.tensor(context, array, self.F16)
        result = self.flash_attn_ext(context, self.tensor(context, p.q, self.F32), self.tensor(context, p.k, self.F32),
                                     self.tensor(context, p.v, self.F32), mask, p.scale, 0.0, p.softcap)
        self.flash_attn_ext_set_prec(result, self.PREC_F32)
        out = self.pages((p.batch, p.query_len, p.query_heads, p.value_dim), numpy.float32)
        out.fill(numpy.nan)
        self.place(result, out)
        graph = self.new_graph(context)
        self.build_forward_expand(graph, result)

        def run():
            status = self.backend_graph_compute(self.backend, graph)
            if status != 0:
                raise RuntimeError(f"ggml: status {status}")
            return out
        return run

    def threads(self, count):
        self.backend_cpu_set_n_threads(self.backend, count)

    def store(self, p, result):
        p.o[...] = result.transpose(0, 2, 1, 3)


PEERS = {"torch flash": lambda: Torch("flash"), "torch math": lambda: Torch("math"), "ggml": Ggml}


def load(wanted):
    """The peers wanted, {name: how to make it}, that this Python has, and why others are not among them."""
    found, missing = [], []
    for name, make in wanted.items():
        try:
            found.append(make())
        except ImportError as error:
            missing.append({"name": name, "reason": f"is not installed: {error}"})
        except Refusal as refusal:
            missing.append({"name": name, "reason": str(refusal)})
    return found, missing


class Server:
    def __init__(self, wanted):
        self.peers, self.missing = load(wanted)
        self.problems, self.runs, self.last = {}, {}, {}

    def open(self, line):
        problem = Problem(line)
        self.problems[problem.problem] = problem
        served, refused = [], list(self.missing)
        for peer in self.peers:
            try:
                peer.threads(1)
                self.runs[problem.problem, peer.name] = peer, peer.prepare(problem)
                served.append({"name": peer.name, "kernel": peer.kernel, "computed_as": peer.computed_as})
            except Refusal as refusal:
                refused.append({"name": peer.name, "kernel": peer.kernel, "reason": str(refusal)})
        return {"implementations": served, "refused": refused}

    def time(self, line, runs):
        key = line["problem"], line["implementation"]
        peer, run = self.runs[key]
        peer.threads(line["threads"])
        begin = time.perf_counter()
        for _ in range(runs):
            result = run()
        seconds = time.perf_counter() - begin
        self.last[key] = result
        return seconds

    def store(self, line):
        key = line["problem"], line["implementation"]
        self.runs[key][0].store(self.problems[line["problem"]], self.last[key])
        return {"ok": True}

    def answer(self, line):
        kind = line["do"]
        if kind == "open":
            return self.open(line)
        if kind == "time":
            return {"seconds": self.time(line, line["runs"])}
        if kind == "answer":
            self.time(line, 1)
            return self.store(line)
        if kind == "last":
            return self.store(line)
        return {"error": f"do: is open, time, answer or last, got {kind!r}"}


def say(line):
    ANSWERS.write(json.dumps(line) + "\n")
    ANSWERS.flush()


def main(peers, make_server):
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(peers))
    wanted = parser.parse_args().only.split(",")
    for name in wanted:
        if name not in peers:
            say({"error": f"--only: the peers are {', '.join(peers)}, got {name!r}"})
            return 2
    server = make_server({name: peers[name] for name in wanted})
    say({"protocol": "runmax.peers", "version": 1})
    for line in sys.stdin:
        try:
            say(server.answer(json.loads(line)))
        except Exception as error:  # pylint: disable=broad-except
            say({"error": f"{type(error).__name__}: {error}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(PEERS, Server))
