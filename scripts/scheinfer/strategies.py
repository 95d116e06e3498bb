"""llama.cpp, Fiddler and ScheInfer's ablations as plans: which part of each node
runs where, as a saved plan has it.

A strategy is a function from the nodes of a model's graph to pieces. Layers are
counted from 0; what comes before them is layer -1, and what comes after them
is one more than the last.
"""

import re

from runs import dims

GPU, CPU = "npu_sim:gpu", "npu_sim:cpu"

# Bytes of an element of a weight.
SIZES = {"q4_0": 18 / 32, "q8_0": 34 / 32, "f16": 2, "f32": 4}
# llama.cpp computes products of so many tokens on the GPU though their weights
# are the CPU's (ggml_backend_offload_op).
OFFLOAD_TOKENS = 32
# Points of a cut are multiples of it.
STEP = 128


def layers(nodes):
    """(layer, node) of each."""
    layer = -1
    for node in nodes:
        named = re.match(r"(?:blk|[kv])\.(\d+)", node.name)
        if named:
            layer = int(named.group(1))
        elif node.name.startswith("output"):
            layer = depth(nodes)
        yield layer, node


def depth(nodes):
    """How many layers there are."""
    return 1 + max(int(m.group(1)) for m in
                   (re.match(r"blk\.(\d+)", node.name) for node in nodes) if m)


def weight_bytes(node):
    if node.op not in ("matmul", "matmul_experts") or not node.weight:
        return 0
    size = SIZES[node.weight.split()[0]]
    for n in dims(node.weight):
        size *= n
    return size


def is_expert(node):
    """Products of experts, and what lies between them."""
    return node.op == "matmul_experts"


def is_mlp(node):
    return node.kind in ("ffn_gate", "ffn_up", "ffn_down")


def whole(node, device, streamed=False):
    piece = {"node": node.index, "device": device}
    if streamed:
        piece["streamed"] = True
    return piece


def fitting(sizes, memory):
    """How many of them, from the first, fit."""
    n = 0
    for size in sizes:
        memory -= size
        if memory < 0:
            break
        n += 1
    return n


def offload_layers(nodes, memory):
    """The first of the layers that llama.cpp gives the GPU: as many of the last
    as fit, and what comes after them."""
    last = depth(nodes)
    sizes = [0] * (last + 1)
    for layer, node in layers(nodes):
        if layer >= 0:
            sizes[layer] += weight_bytes(node)
    return last + 1 - fitting(reversed(sizes), memory)


def llama_cpp(nodes, first, streams):
    """Layers from `first` on are the GPU's. Of the others, weights stay with
    the CPU; streams: in prompts their products are computed on the GPU all the
    same, with weights that are copied there, and their attention on the CPU,
    which has their part of the cache."""
    pieces = []
    for layer, node in layers(nodes):
        if layer >= first:
            pieces.append(whole(node, GPU))
        elif streams and weight_bytes(node):
            pieces.append(whole(node, GPU, True))
        elif streams and layer >= 0 and node.op not in ("attention",
                                                        "set_rows"):
            pieces.append(whole(node, GPU))
        else:
            pieces.append(whole(node, CPU))
    return pieces


def fiddler_layers(nodes, memory):
    """How many layers' experts fit beside all other weights."""
    experts = [0] * depth(nodes)
    for layer, node in layers(nodes):
        if is_expert(node):
            experts[layer] += weight_bytes(node)
        else:
            memory -= weight_bytes(node)
    return fitting(experts, memory)


def fiddler(nodes, held, streams):
    """Experts of the first `held` layers and all other weights are the GPU's.
    The other experts are the CPU's, or are copied to the GPU."""
    pieces, between = [], False
    for layer, node in layers(nodes):
        on_cpu = layer >= held and not streams
        if node.op == "get_rows":
            pieces.append(whole(node, CPU))
        elif is_expert(node):
            between = node.kind != "ffn_down_exps"
            pieces.append(whole(node, CPU if on_cpu else GPU,
                                layer >= held and streams))
        else:
            pieces.append(whole(node, CPU if between and on_cpu else GPU))
    return pieces


def cut_mlp(node, r):
    """r of the weight comes to the GPU, the CPU has the rest."""
    extent = node.inner if node.kind == "ffn_down" else node.width
    axis = "channels" if node.kind == "ffn_down" else "rows"
    at = round(extent * r / STEP) * STEP
    if not 0 < at < extent:
        return [whole(node, GPU if at else CPU, bool(at) and
                      node.op == "matmul")]
    return [dict(whole(node, GPU, node.op == "matmul"), **{axis: [0, at]}),
            dict(whole(node, CPU), **{axis: [at, extent]})]


def sliced(nodes, r, held=0):
    """MLPs of the first `held` layers are the GPU's, as everything beside MLPs
    is; of the others r is streamed, and the CPU computes the rest."""
    pieces, before = [], None
    for layer, node in layers(nodes):
        is_glu = node.op == "glu" and before is not None
        if node.op == "get_rows":
            pieces.append(whole(node, CPU))
        elif (is_mlp(node) or is_glu) and layer >= held:
            pieces += cut_mlp(node, r)
        else:
            pieces.append(whole(node, GPU))
        before = node if is_mlp(node) else before
    return pieces


def sliced_layers(nodes, memory):
    """How many layers' MLPs fit beside all that is no MLP's."""
    mlps = [0] * depth(nodes)
    for layer, node in layers(nodes):
        if is_mlp(node):
            mlps[layer] += weight_bytes(node)
        else:
            memory -= weight_bytes(node)
    return fitting(mlps, memory)


def moved(nodes, others, pieces):
    """Pieces of nodes as those of another graph of the model: what only that
    one has is the GPU's."""
    mine, out = {}, []
    for piece in pieces:
        mine.setdefault(piece["node"], []).append(piece)
    left = list(nodes)
    for node in others:
        if left and (left[0].op, left[0].name) == (node.op, node.name):
            out += [dict(piece, node=node.index)
                    for piece in mine[left.pop(0).index]]
        else:
            out.append(whole(node, GPU))
    return out
