"""HeteroLLM's strategies as plans: which part of each node runs where.

A strategy is a function from the nodes of a model's graph to pieces, as a saved
plan has them. Norms, rotary embedding, attention, SwiGLU and sums are the GPU's
in all of them (section 4); what differs is who multiplies.
"""

from cleave import GPU, NPU

LENGTHS = (32, 64, 128, 256, 512, 1024)  # of the NPU's graphs (5.2.2)
ROWS = 256       # row cuts are multiples of it (4.3)

# Row cuts help where the NPU has no great advantage over the GPU: short
# sequences and FFN-down (4.1.1). This many times as fast is no great advantage.
ADVANTAGE = 3


def whole(node, device):
    return {"node": node.index, "device": device}


def part(node, device, sequence=None, rows=None):
    piece = whole(node, device)
    if sequence and tuple(sequence) != (0, node.rows):
        piece["sequence"] = list(sequence)
    if rows and tuple(rows) != (0, node.width):
        piece["rows"] = list(rows)
    return piece


def is_product(node):
    """A product of many tokens. The output matrix has one."""
    return node.op == "matmul" and node.rows > 1


def by_products(nodes, divide, is_divided=is_product):
    pieces = []
    for node in nodes:
        pieces += divide(node) if is_divided(node) else [whole(node, GPU)]
    return pieces


def gpu_only(nodes, costs=None):
    """PPL-OpenCL."""
    return [whole(node, GPU) for node in nodes]


def layer_level(nodes, costs=None):
    """Hetero-layer: products on the NPU, all else on the GPU. Also what pads:
    the nodes are then those of the padded length."""
    return by_products(nodes, lambda node: [whole(node, NPU)])


def segments(n, lengths=LENGTHS):
    """Standard lengths that make up n, the longest first, and what is left."""
    out, left = [], n
    for length in reversed(lengths):
        while left >= length:
            out.append(length)
            left -= length
    return out, left


def padded(n):
    """The least sum of standard lengths, each once, that n tokens fit."""
    return -(-n // LENGTHS[0]) * LENGTHS[0]


def pieces_of_npu(node, used, rows):
    """The first `used` tokens in graphs of standard lengths."""
    pieces, begin = [], 0
    for length in segments(used)[0]:
        pieces.append(part(node, NPU, (begin, begin + length), (0, rows)))
        begin += length
    return pieces


def pipe(nodes, costs=None):
    """Graphs of standard lengths one after another on the NPU. The nodes are
    those of a padded length."""
    return by_products(nodes, lambda node: pieces_of_npu(node, node.rows,
                                                         node.width))


def row_share(node, npu_ns, gpu_ns, busy_ns, limit):
    """Rows for the GPU, a multiple of ROWS, for the least time of the longer
    side, and that time; npu_ns, gpu_ns: of all rows; busy_ns: what the GPU does
    besides. None where the NPU is more than `limit` times as fast."""
    def longest(rows):
        share = rows / node.width
        return max(npu_ns * (1 - share), gpu_ns * share + busy_ns)
    if gpu_ns > limit * npu_ns:
        return 0, longest(0)
    rows = min(range(0, node.width, ROWS), key=longest)
    return rows, longest(rows)


def divide(node, costs, used, limit):
    """(rows for the GPU of the first `used` tokens, time) of a product."""
    npu = sum(costs.npu(node, n) for n in segments(used)[0])
    rest = costs.gpu(node, node.rows - used) if used < node.rows else 0
    return row_share(node, npu, costs.gpu(node, used), rest, limit)


def tensor_level(nodes, costs, used=None, limit=ADVANTAGE):
    """Hetero-tensor in prefill. The first `used` tokens, all if None, are the
    NPU's in graphs of standard lengths, of which it gives rows to the GPU
    where it has no great advantage (row cuts; hybrid cuts if the nodes are
    those of a padded length). The other tokens are the GPU's (sequence and
    multi-sequence cuts)."""
    def cut(node):
        first = used or node.rows
        rows = divide(node, costs, first, limit)[0]
        pieces = pieces_of_npu(node, first, node.width - rows)
        if rows:
            pieces.append(part(node, GPU, (0, first),
                               (node.width - rows, node.width)))
        if first < node.rows:
            pieces.append(part(node, GPU, (first, node.rows)))
        return pieces
    return by_products(nodes, cut)


def unrestricted(nodes, costs, used=None):
    """The same objective (4.3) without our rule of what is an advantage: rows
    of every product are cut if that is faster."""
    return tensor_level(nodes, costs, used, float("inf"))


def likely_cuts(nodes, costs, most):
    """The numbers of tokens for the NPU, in all combinations of standard
    lengths, with which products should take the least time."""
    n = max(node.rows for node in nodes)
    products = [node for node in nodes if is_product(node)]

    def longest(used):
        return sum(divide(node, costs, used, float("inf"))[1]
                   for node in products)
    return sorted(range(LENGTHS[0], n, LENGTHS[0]), key=longest)[:most]


def sequence_cuts(n, power):
    """How many of n tokens may be the NPU's, where the rest is the GPU's. power:
    the GPU's speed over the NPU's. A rest that keeps the GPU busy for less than
    half of the time is too small: then hybrid cuts are used (5.2.2)."""
    parts = segments(n)[0]
    sums = [sum(parts[:i + 1]) for i in range(len(parts))]
    return [used for used in sums if (n - used) / used >= power / 2]


DECODE_SHARES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
# Products that one step of a device makes together.
DECODE_GROUPS = (("ffn_gate", "ffn_up"), ("ffn_down",),
                 ("output", "token_embd"), ("attn_q", "attn_k", "attn_v"),
                 ("attn_output",))


def decode(nodes, shares):
    """Hetero-tensor in decode: rows of products are cut; shares: the NPU's of
    each kind of product, those left out are the GPU's."""
    def divide(node):
        rows = round(node.width * shares.get(node.kind, 0) / ROWS) * ROWS
        if not 0 < rows < node.width:
            return [whole(node, NPU if rows else GPU)]
        return [part(node, NPU, None, (0, rows)),
                part(node, GPU, None, (rows, node.width))]
    return by_products(nodes, divide, lambda node: node.op == "matmul")
