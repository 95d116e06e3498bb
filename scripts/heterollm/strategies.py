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


def pipe(nodes, costs=None):
    """Graphs of standard lengths in a row on the NPU. The nodes are those of
    the padded length, a sum of standard lengths."""
    def divide(node):
        parts, begin, pieces = segments(node.rows)[0], 0, []
        for length in parts:
            pieces.append(part(node, NPU, (begin, begin + length)))
            begin += length
        return pieces
    return by_products(nodes, divide)


def row_share(node, npu_ns, gpu_ns, busy_ns=0):
    """Rows for the GPU, a multiple of ROWS, for the least time of the longer
    side; npu_ns and gpu_ns: of all rows; busy_ns: what the GPU does besides."""
    def longest(rows):
        share = rows / node.width
        return max(npu_ns * (1 - share), gpu_ns * share + busy_ns)
    return min(range(0, node.width, ROWS), key=longest)


def tensor_level(nodes, costs):
    """Hetero-tensor in prefill. Standard lengths are the NPU's, what is left
    of the sequence is the GPU's (sequence and multi-sequence cuts), and where
    the NPU has no great advantage rows of the NPU's part are, too (row and
    hybrid cuts)."""
    def plan(node, used, left):
        """Rows of the first `used` tokens for the GPU, and the time."""
        parts = segments(used)[0]
        npu = sum(costs.npu(node, length) for length in parts)
        gpu, rest = costs.gpu(node, used), costs.gpu(node, left) if left else 0
        rows = row_share(node, npu, gpu, rest) if npu * ADVANTAGE > gpu else 0
        share = rows / node.width
        return max(npu * (1 - share), gpu * share + rest), rows

    def divide(node):
        parts, _ = segments(node.rows)
        options = []
        for n in range(1, len(parts) + 1):
            used = sum(parts[:n])
            options.append((*plan(node, used, node.rows - used), used, n))
        _, rows, used, n = min(options)
        pieces, begin, split = [], 0, node.width - rows
        for length in parts[:n]:
            pieces.append(part(node, NPU, (begin, begin + length), (0, split)))
            begin += length
        if rows:
            pieces.append(part(node, GPU, (0, used), (split, node.width)))
        if used < node.rows:
            pieces.append(part(node, GPU, (used, node.rows)))
        return pieces
    return by_products(nodes, divide)


def decode(nodes, share):
    """Hetero-tensor in decode: rows of all products are cut, this share of
    them for the NPU."""
    def divide(node):
        rows = round(node.width * share / ROWS) * ROWS
        if not 0 < rows < node.width:
            return [whole(node, NPU if rows else GPU)]
        return [part(node, NPU, None, (0, rows)),
                part(node, GPU, None, (rows, node.width))]
    return by_products(nodes, divide, lambda node: node.op == "matmul")
