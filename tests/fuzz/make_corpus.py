"""Writes the fuzzers' seeds to corpus/: small files of every kind that the formats have, and of every kind of
damage that the tests know. Deterministic; inputs that fuzzing found (found-*) are left alone.

usage: python3 tests/fuzz/make_corpus.py
"""

import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent / "corpus"


def write(kind, name, content):
    directory = CORPUS / kind
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)


def npy(header, data, version=(1, 0)):
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + data


def dictionary(descr="<f4", order="False", shape="(2, 3)"):
    return f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


def make_npy():
    six = struct.pack("<6f", *range(6))
    for major in (1, 2, 3):
        write("npy", f"version-{major}", npy(dictionary(), six, (major, 0)))
    write("npy", "version-9", npy(dictionary(), six, (9, 0)))
    write("npy", "fortran", npy(dictionary(order="True"), six))
    write("npy", "f2", npy(dictionary("<f2"), struct.pack("<6e", *range(6))))
    write("npy", "f8", npy(dictionary("<f8"), struct.pack("<6d", *range(6))))
    write("npy", "f8-fortran-3d", npy(dictionary("<f8", "True", "(1, 2, 3)"), struct.pack("<6d", *range(6))))
    write("npy", "f8-too-large", npy(dictionary("<f8", shape="(1,)"), struct.pack("<d", 1e300)))
    write("npy", "nan-inf", npy(dictionary(shape="(3,)"), struct.pack("<3f", float("nan"), float("inf"), -0.0)))
    write("npy", "scalar", npy(dictionary(shape="()"), six[:4]))
    write("npy", "empty", npy(dictionary(shape="(0, 4)"), b""))
    write("npy", "long-integers", npy(dictionary(shape="(2L, 3L)"), six))
    write("npy", "big-endian", npy(dictionary(">f4"), six))
    write("npy", "objects", npy(dictionary("|O"), six))
    write("npy", "structured", npy(b"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}", six))
    write("npy", "other-order", npy(b"{\"shape\":(2,3),'fortran_order' :False,\t\"descr\" : \"<f4\"}  \n", six))
    write("npy", "negative", npy(dictionary(shape="(-2, 3)"), six))
    write("npy", "overflow", npy(dictionary(shape="(4294967296, 4294967296)"), six))
    write("npy", "overflow-zero", npy(dictionary(shape="(0, 9223372036854775807)"), b""))
    write("npy", "truncated-header", npy(dictionary(), six)[:40])
    write("npy", "truncated-data", npy(dictionary(), six)[:-1])
    write("npy", "trailing", npy(dictionary(), six + b"x"))
    write("npy", "huge-header", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}")


def safetensors(header, data):
    if not isinstance(header, bytes):
        header = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    eight = bytes(8)
    write("safetensors", "f32", safetensors({"q": tensor("F32", [2], 0, 8)}, eight))
    write("safetensors", "no-tensors", safetensors({}, b""))
    write("safetensors", "padded", safetensors(b"{}      ", b""))
    many = {
        "a": tensor("F16", [2, 2], 0, 8),
        "b": tensor("BF16", [1, 4], 8, 16),
        "c": tensor("F64", [1], 16, 24),
        "d": tensor("I64", [], 24, 32),
        "e": tensor("F32", [0, 4], 0, 0),
        "f": tensor("F32", [], 32, 36),
        "g": tensor("F8_E4M3", [4], 36, 40),
        "h": tensor("F4", [2, 4], 40, 44),
        "__metadata__": {"format": "np", "": ""},
    }
    write("safetensors", "every-type", safetensors(many, bytes(44)))
    write("safetensors", "f64-too-large", safetensors({"x": tensor("F64", [1], 0, 8)}, struct.pack("<d", -1e300)))
    write("safetensors", "short-range", safetensors({"x": tensor("F32", [500, 400], 0, 8)}, eight))
    write("safetensors", "overlap", safetensors({"x": tensor("F32", [2], 0, 8), "y": tensor("F32", [1], 4, 8)}, eight))
    write("safetensors", "hole", safetensors({"x": tensor("F32", [1], 4, 8)}, eight))
    write("safetensors", "backwards", safetensors({"x": tensor("F32", [2], 8, 0)}, eight))
    write("safetensors", "beyond", safetensors({"x": tensor("F32", [4], 0, 16)}, eight))
    write("safetensors", "overflow", safetensors({"x": tensor("F32", [2**32, 2**32], 0, 8)}, eight))
    write("safetensors", "huge-length", struct.pack("<Q", 2**64 - 3) + b"{}")
    write("safetensors", "length-plus-one", struct.pack("<Q", 3) + b"{}")
    write("safetensors", "five-bytes", b"12345")
    write("safetensors", "truncated", safetensors({"q": tensor("F32", [2], 0, 8)}, eight)[:30])
    write("safetensors", "bad-json", safetensors(b'{"x":{"dtype":"F32",}', eight))
    write("safetensors", "bad-utf8", safetensors(b'{"\xff":1}', eight))
    write("safetensors", "escapes", safetensors(b'{"\\u0000\\n":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight))
    write("safetensors", "nul-after-the-end", safetensors(b"{}\0x", b""))
    write("safetensors", "twice", safetensors(b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}', eight))
    write("safetensors", "nested", safetensors(b'{"x":{"more":[[[{"a":[1,{}]}]],null,1.5],"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight))
    write("safetensors", "metadata-number", safetensors(b'{"__metadata__":{"a":1}}', b""))
    write("safetensors", "exponent", safetensors(b'{"x":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}', eight))


def make_problem():
    texts = [
        "q4096:d64",
        "b2:hq32:hk8:q1024:d128:causal",
        "b3:h4:q5:k7:d3:dv9:bf16:causal=top_left",
        "q8:d64:window=128,0",
        "q8:d64:softcap=30:alibi:sink:mask:bias",
        "q8:d64:ieee",
        "q8:d64:tf32",
        "q8:d64:e4m3",
        "varlen=3/5,0,2/0:d64",
        "q8:d64:paged=16:seed=7",
        "q8:d64:scale=0.125:dropout=0.1:batch_invariant:in=loud:seed=18446744073709551615",
        "q0:d0",
        "b0:q1:d64",
        "hq12:hk5:q8",
        "q99999999999999999999",
        "b1099511627776:q1099511627776",
        "q8::d64",
        "q8:softcap=nan",
        "q8:window=-2,0",
        "q-1",
        "varlen=",
        "q8:scale=1e-320:softcap=1e308",
    ]
    for number, text in enumerate(texts):
        write("problem", f"text-{number:02}", text.encode())


make_npy()
make_safetensors()
make_problem()
