"""`runmax run` against float64 numpy: arrays saved by numpy go in, what comes out is compared and read back.

usage: run_end_to_end.py PROGRAM GROUP [EXTRA OPTIONS FOR runmax run]

The bound is the lesson gate: |o - ref| <= rtol(N) * A* with
A = sum_j p_j |v_j|, A* = A + 2^-16 max_d A, rtol(N) = max(1e-5, 4 * 2^-23 * sqrt(N)).
"""

import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

PROGRAM = os.path.abspath(sys.argv[1])
EXTRA = sys.argv[3:]


def reference(q, k, v, scale=None, causal=None, window=(-1, -1), softcap=0.0):
    """O, A and LSE of (B, H, S, D) arrays, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("bhid,bhjd->bhij", q, k) * (1 / np.sqrt(q.shape[3]) if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    query_len, kv_len = scores.shape[2:]
    i, j = np.arange(query_len)[:, None], np.arange(kv_len)[None, :]
    diagonal = i + (0 if causal == "top-left" else kv_len - query_len)
    visible = np.ones((query_len, kv_len), dtype=bool)
    if causal:
        visible &= j <= diagonal
    if window[0] >= 0:
        visible &= j >= diagonal - window[0]
    if window[1] >= 0:
        visible &= j <= diagonal + window[1]
    scores = np.where(visible, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(np.isneginf(largest), 0, largest))[..., 0]
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return weights @ v, weights @ np.abs(v), lse


# Half the distance from 1 to the next number, and the smallest number, of the types that O is rounded to.
ROUNDING = {"F16": (2.0**-11, 2.0**-24), "BF16": (2.0**-8, 2.0**-133)}


def within_gate(got, want, magnitude, kv_len, what, kind="F32"):
    """`kind` is the type of O; bf16 values come widened to float32."""
    stored = {"F32": "<f4", "F16": "<f2", "BF16": "<f4", "F64": "<f8"}[kind]
    assert got.dtype == np.dtype(stored), f"{what}: dtype {got.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    # Double here has numpy's own errors on top.
    rtol = 1e-13 if kind == "F64" else max(1e-5, 4 * 2.0**-23 * np.sqrt(kv_len))
    bound = rtol * (magnitude + 2.0**-16 * magnitude.max(axis=-1, keepdims=True, initial=0))
    if kind in ROUNDING:
        unit, smallest = ROUNDING[kind]
        bound = bound + unit * (np.abs(want) + bound) + smallest / 2
    error = np.abs(got.astype(np.float64) - want)
    bad = ~(error <= bound)
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        raise AssertionError(f"{what}: o{list(at)} got {got[at]} want {want[at]} bound {bound[at]}")


def lse_matches(got, want, what):
    assert got.shape == want.shape, f"{what}: lse shape {got.shape}, wanted {want.shape}"
    infinite = np.isneginf(want)
    assert np.array_equal(np.isneginf(got), infinite), f"{what}: -inf in other places"
    bound = np.maximum(1e-5, 2e-6 * np.abs(want))
    with np.errstate(invalid="ignore"):
        bad = ~infinite & ~(np.abs(got - want) <= bound)
    assert not bad.any(), f"{what}: lse {got[bad][0]}, wanted {want[bad][0]}"


def run(*options, expect=0):
    done = subprocess.run([PROGRAM, "run", *options, *EXTRA], capture_output=True, text=True)
    command = " ".join(["runmax run", *options])
    assert done.returncode == expect, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def arrays(rng, batch, query_heads, kv_heads, query_len, kv_len, dim, value_dim):
    return (
        rng.standard_normal((batch, query_heads, query_len, dim)),
        rng.standard_normal((batch, kv_heads, kv_len, dim)),
        rng.standard_normal((batch, kv_heads, kv_len, value_dim)),
    )


def to_rank(x, rank, layout):
    """(B, H, S, D), or an LSE (B, H, S), as files of that rank and layout hold it."""
    if x.ndim == 3:
        return x if rank == 4 else x[0] if rank == 3 else x[0, 0]
    if rank == 2:
        return x[0, 0]
    if layout == "bshd":
        x = x.transpose(0, 2, 1, 3)
    return x if rank == 4 else x[0]


def npy_case(q, k, v, rank=4, layout="bshd", dtype="<f4", order="C", options=(), to_f32=False, **kind):
    what = f"rank {rank} {layout} {dtype} {order} q{q.shape} k{k.shape} {' '.join(options)}"
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    if dtype != "<f4" and (to_f32 or "cuda" in EXTRA):
        options = (*options, "--dtype", "f32")
        to_f32 = True
    for name, x in (("q", q), ("k", k), ("v", v)):
        np.save(f"{name}.npy", np.array(to_rank(x, rank, layout), order=order))
    run("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--lse", "lse.npy",
        "--layout", layout, *options)
    if to_f32:
        q, k, v = (x.astype("<f4") for x in (q, k, v))
    want, magnitude, lse = reference(q, k, v, **kind)
    own = {"<f4": "F32", "<f2": "F16", "<f8": "F64"}["<f4" if to_f32 else dtype]
    within_gate(np.load("o.npy"), to_rank(want, rank, layout), to_rank(magnitude, rank, layout), k.shape[2], what, own)
    lse_matches(np.load("lse.npy"), to_rank(lse, rank, layout), what)


def group_types(rng):
    for dtype, order in itertools.product(("<f4", "<f2", "<f8"), "CF"):
        npy_case(*arrays(rng, 2, 3, 3, 37, 37, 16, 16), dtype=dtype, order=order)
        npy_case(*arrays(rng, 2, 3, 3, 37, 37, 16, 16), dtype=dtype, order=order, to_f32=True)


def group_ranks(rng):
    for layout, order in itertools.product(("bshd", "bhsd"), "CF"):
        npy_case(*arrays(rng, 1, 1, 1, 33, 70, 8, 8), rank=2, layout=layout, order=order)
        npy_case(*arrays(rng, 1, 4, 2, 33, 70, 8, 12), rank=3, layout=layout, order=order)
        npy_case(*arrays(rng, 2, 4, 2, 33, 70, 8, 12), rank=4, layout=layout, order=order)


def group_masks(rng):
    x = lambda query_len, kv_len: arrays(rng, 1, 4, 2, query_len, kv_len, 16, 16)
    for lengths in ((65, 65), (20, 65), (65, 20), (1, 130), (130, 1)):
        npy_case(*x(*lengths), options=("--causal",), causal="bottom-right")
        npy_case(*x(*lengths), options=("--causal", "--causal-align", "top-left"), causal="top-left")
        npy_case(*x(*lengths), options=("--window", "7,3"), window=(7, 3))
        npy_case(*x(*lengths), options=("--causal", "--window-size", "-1,0"), causal="bottom-right", window=(-1, 0))
        npy_case(*x(*lengths), options=("--softmax-scale", "0.5"), scale=0.5)
        npy_case(*x(*lengths), options=("--scale", "-0.25"), scale=-0.25)


def group_check(rng):
    for layout, rank in (("bshd", 4), ("bhsd", 3), ("bshd", 2)):
        heads = (4, 2) if rank > 2 else (1, 1)
        x = arrays(rng, 2 if rank == 4 else 1, *heads, 65, 130, 16, 24)
        npy_case(*x, rank=rank, layout=layout, options=("--check",))
        npy_case(*x, rank=rank, layout=layout, options=("--check", "--causal"), causal="bottom-right")


def group_lengths(rng):
    for query_len, kv_len in ((1, 1), (0, 5), (5, 0), (31, 257), (257, 31), (1, 1009)):
        npy_case(*arrays(rng, 1, 2, 1, query_len, kv_len, 64, 64))
    for dim, value_dim in ((1, 1), (3, 5), (80, 17), (4, 0)):
        npy_case(*arrays(rng, 1, 2, 1, 40, 50, dim, value_dim))
    npy_case(*arrays(rng, 0, 2, 1, 40, 50, 8, 8))


def group_special(rng):
    q, k, v = arrays(rng, 1, 1, 1, 4, 6, 8, 8)
    q[0, 0, 1, 3] = np.nan
    for name, x in (("q", q), ("k", k), ("v", v)):
        np.save(f"{name}.npy", x[0, 0].astype("<f4"))
    options = ("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--lse", "lse.npy")
    assert "check: accepted" in run(*options, "--check").stdout
    rows = np.isnan(np.load("o.npy")).all(axis=1)
    assert list(rows) == [False, True, False, False], f"NaN rows {rows}"
    assert list(np.isnan(np.load("lse.npy"))) == [False, True, False, False]
    assert not np.isnan(np.load("o.npy")[[0, 2, 3]]).any()


def group_readback(rng):
    """What we write, numpy and we ourselves read."""
    q, k, v = (x[0, 0].astype("<f4") for x in arrays(rng, 1, 1, 1, 50, 50, 16, 16))
    for name, x in (("q", q), ("k", k), ("v", v)):
        np.save(f"{name}.npy", x)
    run("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy")
    o = np.load("o.npy")
    assert o.flags["C_CONTIGUOUS"]
    with open("o.npy", "rb") as file:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        assert (version, shape, fortran, dtype) == ((1, 0), (50, 16), False, np.dtype("<f4"))
        assert file.tell() % 64 == 0
    run("--q", "q.npy", "--k", "k.npy", "--v", "o.npy", "--out", "o2.npy")
    four = (x[None, None] for x in (q, k, o))
    want, magnitude, _ = reference(*four)
    within_gate(np.load("o2.npy"), want[0, 0], magnitude[0, 0], 50, "our output as v")
    np.save("again.npy", o)
    assert open("again.npy", "rb").read() == open("o.npy", "rb").read(), "numpy would write other bytes"


def bf16_bits(x):
    bits = np.ascontiguousarray(x, dtype="<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_safetensors(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        payload = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = open(path, "rb").read()
    (size,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, t in json.loads(content[8 : 8 + size]).items():
        begin, end = (8 + size + at for at in t["data_offsets"])
        stored = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8"}[t["dtype"]]
        tensors[name] = np.frombuffer(content[begin:end], stored).reshape(t["shape"])
        if t["dtype"] == "BF16":
            tensors[name] = (tensors[name].astype("<u4") << 16).view("<f4")
    return tensors


def group_safetensors(rng):
    q, k, v = arrays(rng, 2, 4, 2, 33, 70, 16, 24)
    kinds = {
        "F32": lambda x: x.astype("<f4"),
        "F16": lambda x: x.astype("<f2"),
        "F64": lambda x: x.astype("<f8"),
        "BF16": bf16_bits,
    }
    values = lambda dtype, x: (x.astype("<u4") << 16).view("<f4") if dtype == "BF16" else x
    for (dtype, convert), layout in itertools.product(kinds.items(), ("bshd", "bhsd")):
        stored = {name: convert(x) for name, x in (("q", q), ("k", k), ("v", v))}
        files = {name: (dtype, np.ascontiguousarray(to_rank(x, 4, layout))) for name, x in stored.items()}
        files["step"] = ("I64", np.array(7, dtype="<i8"))
        write_safetensors("in.safetensors", files, {"format": "np"})
        on_gpu = "cuda" in EXTRA
        run("--in", "in.safetensors", "--out", "out.safetensors", "--layout", layout, "--causal", "--dtype",
            "f32" if on_gpu else "stored", *(() if on_gpu else ("--check",)))
        out = read_safetensors("out.safetensors")
        given = [values(dtype, stored[n]) for n in "qkv"]
        if on_gpu:
            given = [x.astype("<f4") for x in given]
        want, magnitude, lse = reference(*given, causal="bottom-right")
        what = f"safetensors {dtype} {layout}"
        within_gate(out["o"], to_rank(want, 4, layout), to_rank(magnitude, 4, layout), 70, what,
                    "F32" if on_gpu else dtype)
        lse_matches(out["lse"], lse, what)


def group_forms(rng):
    """Packed sequences, pages and lengths, each against its sequences one by one."""
    pairs = [(5, 9), (0, 3), (40, 40), (1, 130), (7, 0)]
    heads, kv_heads, dim = 4, 2, 16
    data = [arrays(rng, 1, heads, kv_heads, q, k, dim, 24) for q, k in pairs]
    cu = lambda lengths, kind: np.cumsum([0, *lengths]).astype(kind)
    np.save("cu_q.npy", cu([q for q, _ in pairs], "<i4"))
    np.save("cu_k.npy", cu([k for _, k in pairs], "<i8"))
    packed = lambda index, kind: np.concatenate([to_rank(x[index], 3, "bshd") for x in data]).astype(kind)
    page, pages = 8, 60
    order = list(rng.permutation(pages))
    table = np.full((len(pairs), 20), -1, dtype="<i4")
    pools = {n: np.full((pages, page, kv_heads, w), np.nan) for n, w in (("k", dim), ("v", 24))}
    for b, (_, kv_len) in enumerate(pairs):
        for first in range(0, kv_len, page):
            table[b, first // page] = at = order.pop()
            for name, index in (("k", 1), ("v", 2)):
                rows = to_rank(data[b][index], 3, "bshd")[first : first + page]
                pools[name][at, : len(rows)] = rows
    np.save("table.npy", table)
    np.save("used.npy", np.array([k for _, k in pairs], dtype="<i4"))
    for kind, name in (("<f4", "F32"), ("<f2", "F16"), ("<f8", "F64")):
        np.save("q.npy", packed(0, kind))
        np.save("k.npy", packed(1, kind))
        np.save("v.npy", packed(2, kind))
        np.save("pool_k.npy", pools["k"].astype(kind))
        np.save("pool_v.npy", pools["v"].astype(kind))
        forms = {
            "packed": ("--k", "k.npy", "--v", "v.npy", "--cu-seqlens-k", "cu_k.npy"),
            "paged": ("--k", "pool_k.npy", "--v", "pool_v.npy", "--cu-seqlens-k", "cu_k.npy", "--page-table", "table.npy"),
            "paged, lengths": ("--k", "pool_k.npy", "--v", "pool_v.npy", "--page-table", "table.npy", "--seqused", "used.npy"),
        }
        for form, options in forms.items():
            run("--q", "q.npy", *options, "--cu-seqlens-q", "cu_q.npy", "--out", "o.npy", "--lse", "lse.npy", "--causal",
                "--check")
            o, lse, at = np.load("o.npy"), np.load("lse.npy"), 0
            assert o.shape == (sum(q for q, _ in pairs), heads, 24) and lse.shape == (heads, len(o))
            for b, (query_len, kv_len) in enumerate(pairs):
                want, magnitude, want_lse = reference(*(x.astype(kind) for x in data[b]), causal="bottom-right")
                what = f"{form} {name} sequence {b}"
                within_gate(o[at : at + query_len], to_rank(want, 3, "bshd"), to_rank(magnitude, 3, "bshd"), kv_len + 1,
                            what, name)
                lse_matches(lse[:, at : at + query_len], want_lse[0], what)
                at += query_len

    # A dense cache of which less is used, from .safetensors.
    q, k, v = arrays(rng, 3, heads, kv_heads, 2, 50, dim, dim)
    used = [50, 0, 17]
    for b, length in enumerate(used):
        k[b, :, length:] = v[b, :, length:] = np.nan
    files = {n: ("F32", np.ascontiguousarray(to_rank(x.astype("<f4"), 4, "bshd"))) for n, x in zip("qkv", (q, k, v))}
    write_safetensors("in.safetensors", {**files, "lengths": ("I64", np.array(used, dtype="<i8"))})
    run("--in", "in.safetensors", "--out", "out.safetensors", "--seqused", "lengths", "--causal", "--check")
    out = read_safetensors("out.safetensors")
    for b, length in enumerate(used):
        one = (q[b : b + 1], k[b : b + 1, :, :length], v[b : b + 1, :, :length])
        want, magnitude, lse = reference(*(x.astype("<f4") for x in one), causal="bottom-right")
        within_gate(out["o"][b : b + 1], to_rank(want, 4, "bshd"), to_rank(magnitude, 4, "bshd"), 50, f"seqused {b}")
        lse_matches(out["lse"][b : b + 1], lse, f"seqused {b}")

    def refused(message, *options, k="k.npy", v="v.npy"):
        done = run("--q", "q.npy", "--k", k, "--v", v, "--out", "no.npy", *options, expect=2)
        assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not os.path.exists("no.npy")

    np.save("bad.npy", cu([5, 3], "<i4"))
    refused("--cu-seqlens-q bad.npy: must end with the number of rows of q, 53, got 8",
            "--cu-seqlens-q", "bad.npy", "--cu-seqlens-k", "cu_k.npy")
    np.save("bad.npy", np.array([0, 9, 3, 53], dtype="<i4"))
    refused("must not decrease, got 3 after 9 at index 2", "--cu-seqlens-q", "bad.npy", "--cu-seqlens-k", "cu_k.npy")
    np.save("bad.npy", np.array([1, 53], dtype="<i4"))
    refused("must begin with 0, got 1", "--cu-seqlens-q", "bad.npy", "--cu-seqlens-k", "cu_k.npy")
    np.save("bad.npy", np.array([0.0, 53.0], dtype="<f4"))
    refused("dtype is '<f4'; allowed are '<i4' and '<i8'", "--cu-seqlens-q", "bad.npy", "--cu-seqlens-k", "cu_k.npy")
    refused("needs --cu-seqlens-k", "--cu-seqlens-q", "cu_q.npy")
    refused("needs --cu-seqlens-q too", "--cu-seqlens-k", "cu_k.npy")
    table[3, 2] = 60
    np.save("bad.npy", table)
    refused("page_table: row 3, column 2 must be at least 0 and below 60, the number of pages, got 60",
            "--cu-seqlens-q", "cu_q.npy", "--cu-seqlens-k", "cu_k.npy", "--page-table", "bad.npy", k="pool_k.npy",
            v="pool_v.npy")


def group_report(rng):
    q, k, v = arrays(rng, 1, 4, 2, 33, 70, 16, 24)
    for name, x in (("q", q.astype("<f8")), ("k", k.astype("<f4")), ("v", v.astype("<f2"))):
        np.save(f"{name}.npy", to_rank(x, 3, "bshd"))
    options = ("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--lse", "lse.npy")
    refused = run(*options, expect=2).stderr
    assert refused == ("runmax: --k k.npy: must have the type of q, got f32 and f64; --dtype f32 computes all of them in "
                       "FP32\n"), refused
    options += ("--dtype", "f32")
    done = run(*options, "--json")
    report = json.loads(done.stdout)
    assert report["schema"] == "runmax.run" and report["version"] == 1
    assert report["problem"] == "hq4:hk2:q33:k70:d16:dv24", report["problem"]
    assert [i["dtype"] for i in report["inputs"]] == ["f64", "f32", "f16"]
    assert [o["shape"] for o in report["outputs"]] == [[33, 4, 24], [4, 33]]
    notices = done.stderr.splitlines()
    assert notices == [
        "runmax: notice: --q q.npy: f64 is computed in f32",
        "runmax: notice: --v v.npy: f16 is computed in f32",
    ], notices
    text = run(*options).stdout
    assert text.count("\n") == 1 and text.startswith("o.npy: o (33, 4, 24), lse.npy: lse (4, 33)"), text


def main():
    group = sys.argv[2]
    if "cuda" in EXTRA:
        probe = subprocess.run([PROGRAM, "plan", "q1:d1", "--device", "cuda"], capture_output=True, text=True)
        if probe.returncode == 4:
            print("skipped: " + probe.stderr.strip())
            return
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        globals()["group_" + group](np.random.default_rng(20240607))
        left = [name for name in os.listdir(".") if name.startswith(".")]
        assert not left, f"hidden files are left: {left}"
        os.chdir("/")


main()
