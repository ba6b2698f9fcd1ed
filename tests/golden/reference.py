#!/usr/bin/python3
"""Golden values of whole model steps, computed without any of this project's code.

A second implementation of the model from the published equations, in NumPy and double precision: embedding, RMSNorm,
grouped-query attention with every kind of position encoding, SwiGLU, tied and untied head, weighted cross-entropy with
masked targets. There is no backward pass here that could share a mistake with ours: gradients are complex-step derivatives
of the forward pass, Im f(x + ih) / h with h = 1e-30, exact to rounding.

Weights come from an integer hash of (name, index) that the test on the other side computes too (`pattern`), so the file of
golden values holds results only.

    reference.py            writes model_step.json beside this script
    reference.py --check    computes everything again and compares with the file
"""

import json
import math
import pathlib
import sys

import numpy as np

GOLDEN = pathlib.Path(__file__).with_name("model_step.json")
STEP = 1e-30
MASKED = -1e30  # a logit whose exponential is zero
TOGETHER = 96   # derivatives computed at once


# ---------------------------------------------------------------- inputs


def pattern(name, count):
    """Values in [-1, 1) for elements 0 .. count - 1 of `name`: FNV-1a of the name, then a multiplicative hash."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xFFFFFFFF
    z = (np.arange(1, count + 1, dtype=np.uint64) * 2654435761 + seed) & 0xFFFFFFFF
    z ^= z >> np.uint64(16)
    z = z * np.uint64(2246822519) & np.uint64(0xFFFFFFFF)
    z ^= z >> np.uint64(13)
    return z.astype(np.float64) / 2.0**31 - 1


def weight(name, shape):
    """The value of a parameter, as rounded to single precision by both sides."""
    values = pattern(name, math.prod(shape)).reshape(shape)
    if name.endswith("norm.weight"):
        values = 1 + 0.2 * values
    elif ".position." in name:
        identity = np.zeros(shape)
        for j in range(min(shape[1:])):
            identity[:, j, j] = 1
        values = identity + 0.1 * values
    else:
        values = 0.4 * values
    return values.astype(np.float32).astype(np.float64)


def integers(name, count, bound):
    return np.floor((pattern(name, count) + 1) / 2 * bound).astype(int)


# ---------------------------------------------------------------- positions


def rope_frequencies(head_dim, theta=10000.0):
    return theta ** (-2.0 * np.arange(head_dim // 2) / head_dim)


def fope_sizes(model, position):
    """(kept frequencies, columns d) of FoPE."""
    w = rope_frequencies(model["head_dim"])
    kept = w[w >= 2 * np.pi / model["context"]]
    limit = model["head_dim"] // 4 if position["cap"] == "quarter" else model["head_dim"] // 2
    return kept, min(len(kept), limit)


def position_factors(params, model, position, layer, length):
    """z = C + i S as two arrays [..., kv heads or 1, length, head_dim / 2], or None."""
    pairs = model["head_dim"] // 2
    t = np.arange(length)[:, None]
    kind = position["kind"]
    if kind in ("alibi", "nope"):
        return None
    if kind == "rope":
        angles = t * rope_frequencies(model["head_dim"])
        return np.cos(angles)[None], np.sin(angles)[None]
    if kind == "yarn":
        original, w = position["original_context"], rope_frequencies(model["head_dim"])
        stretch = model["context"] / original
        ramp = np.clip((original * w / (2 * np.pi) - 1) / (32 - 1), 0, 1)
        angles = t * (w * ramp + w / stretch * (1 - ramp))
        temperature = 1 + 0.1 * math.log(stretch)  # of q and of k
        return temperature * np.cos(angles)[None], temperature * np.sin(angles)[None]
    if kind == "p-rope":
        rotated = int(position["fraction"] * pairs)
        angles = t * rope_frequencies(model["head_dim"])[:rotated]
        constant = np.ones((length, pairs - rotated))
        sine = math.sqrt(position["constant_weight"] - 1)  # |1 + i sine|^2 is the weight
        return np.hstack([np.cos(angles), constant])[None], np.hstack([np.sin(angles), sine * constant])[None]
    frequencies, columns = fope_sizes(model, position)
    prefix = "model." if position["share"] == "model" else f"model.layers.{layer}.self_attn."
    cosine = np.cos(t * frequencies) @ params[prefix + "position.cosine"]  # [..., G, T, d]
    sine = np.sin(t * frequencies) @ params[prefix + "position.sine"]

    def with_tail(table, value):
        return np.concatenate([table, np.full(table.shape[:-1] + (pairs - columns,), value)], axis=-1)

    return with_tail(cosine, 1.0), with_tail(sine, position["zero_phase"])


def rotate(x, factors, queries_per_head):
    """x [..., B, heads, T, head_dim] in the half-split layout: pair j is components (j, j + head_dim / 2)."""
    if factors is None:
        return x
    cosine, sine = (np.expand_dims(f if f.shape[-3] == 1 else np.repeat(f, queries_per_head, axis=-3), -4) for f in factors)
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


# ---------------------------------------------------------------- the model
# A parameter may carry one leading axis of perturbed copies; every operation broadcasts over it.


def linear(x, w):
    return x @ np.swapaxes(w, -1, -2)[..., None, :, :]


def rmsnorm(x, gain, epsilon, axes=2):
    """x [..., (`axes` axes), n]; gain [n], perhaps with the axis of copies before it."""
    if gain.ndim == 2:
        gain = gain.reshape(gain.shape[0], *[1] * axes, gain.shape[1])
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * gain


def split_heads(x, heads):
    """[..., B, T, heads * head_dim] -> [..., B, heads, T, head_dim]"""
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)


def attention(params, model, position, layer, x):
    prefix = f"model.layers.{layer}.self_attn."
    heads, kv_heads, length = model["heads"], model["kv_heads"], x.shape[-2]
    group = heads // kv_heads
    q = split_heads(linear(x, params[prefix + "q_proj.weight"]), heads)
    k = split_heads(linear(x, params[prefix + "k_proj.weight"]), kv_heads)
    v = split_heads(linear(x, params[prefix + "v_proj.weight"]), kv_heads)
    if model["qk_norm"]:
        q = rmsnorm(q, params[prefix + "q_norm.weight"], model["norm_epsilon"], axes=3)
        k = rmsnorm(k, params[prefix + "k_norm.weight"], model["norm_epsilon"], axes=3)
    factors = position_factors(params, model, position, layer, length)
    q = rotate(q, factors, group)
    k = np.repeat(rotate(k, factors, 1), group, axis=-3)
    v = np.repeat(v, group, axis=-3)

    logits = q @ np.swapaxes(k, -1, -2) / math.sqrt(model["head_dim"])
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    if position["kind"] == "alibi":
        slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
        logits = logits - slopes[:, None, None] * distance
    logits = np.where(distance >= 0, logits, MASKED)
    e = np.exp(logits - logits.real.max(axis=-1, keepdims=True))
    out = np.swapaxes(e / e.sum(axis=-1, keepdims=True) @ v, -2, -3)
    return linear(out.reshape(*out.shape[:-2], -1), params[prefix + "o_proj.weight"])


def mlp(params, layer, x):
    prefix = f"model.layers.{layer}.mlp."
    gate = linear(x, params[prefix + "gate_proj.weight"])
    up = linear(x, params[prefix + "up_proj.weight"])
    return linear(gate / (1 + np.exp(-gate)) * up, params[prefix + "down_proj.weight"])


def logits_of(params, model, position, tokens):
    """[..., B, T, vocabulary]"""
    epsilon = model["norm_epsilon"]
    x = params["model.embed_tokens.weight"][..., tokens, :]
    for layer in range(model["layers"]):
        prefix = f"model.layers.{layer}."
        x = x + attention(params, model, position, layer, rmsnorm(x, params[prefix + "input_layernorm.weight"], epsilon))
        x = x + mlp(params, layer, rmsnorm(x, params[prefix + "post_attention_layernorm.weight"], epsilon))
    x = rmsnorm(x, params["model.norm.weight"], epsilon)
    return linear(x, params["model.embed_tokens.weight" if model["tied"] else "lm_head.weight"])


def token_losses(logits, targets):
    """-log softmax at the target, 0 where it is negative; [..., B, T]"""
    top = logits.real.max(axis=-1, keepdims=True)
    normaliser = np.log(np.exp(logits - top).sum(axis=-1)) + top[..., 0]
    chosen = np.maximum(targets, 0)
    chosen = np.broadcast_to(chosen, logits.shape[:-1])[..., None]
    return np.where(targets >= 0, normaliser - np.take_along_axis(logits, chosen, axis=-1)[..., 0], 0)


# ---------------------------------------------------------------- cases


def parameter_shapes(model, position):
    """Trained parameters first, then frozen ones."""
    width, hidden, head_dim = model["width"], model["mlp_hidden"], model["head_dim"]
    q, kv = model["heads"] * head_dim, model["kv_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": (model["vocabulary"], width), "model.norm.weight": (width,)}
    if not model["tied"]:
        shapes["lm_head.weight"] = (model["vocabulary"], width)
    for layer in range(model["layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (width,),
            prefix + "self_attn.q_proj.weight": (q, width),
            prefix + "self_attn.k_proj.weight": (kv, width),
            prefix + "self_attn.v_proj.weight": (kv, width),
            prefix + "self_attn.o_proj.weight": (width, q),
            prefix + "post_attention_layernorm.weight": (width,),
            prefix + "mlp.gate_proj.weight": (hidden, width),
            prefix + "mlp.up_proj.weight": (hidden, width),
            prefix + "mlp.down_proj.weight": (width, hidden),
        }
        if model["qk_norm"]:
            shapes[prefix + "self_attn.q_norm.weight"] = shapes[prefix + "self_attn.k_norm.weight"] = (head_dim,)
    frozen = {}
    if position["kind"] == "fope":
        frequencies, columns = fope_sizes(model, position)
        shape = (model["kv_heads"], len(frequencies), columns)
        owners = ["model."] if position["share"] == "model" else [f"model.layers.{i}.self_attn." for i in range(model["layers"])]
        frozen = {owner + "position." + kind: shape for owner in owners for kind in ("cosine", "sine")}
    if position.get("learnable"):
        return shapes | frozen, {}
    return shapes, frozen


def gradient(params, name, loss):
    """Complex-step derivative of loss(params) with respect to every element of params[name]."""
    value = params[name]
    result = np.empty(value.size)
    for begin in range(0, value.size, TOGETHER):
        count = min(TOGETHER, value.size - begin)
        copies = np.repeat(value[None].astype(complex), count, axis=0)
        copies.reshape(count, -1)[np.arange(count), begin + np.arange(count)] += 1j * STEP
        result[begin:begin + count] = loss({**params, name: copies}).imag / STEP
    return result


def compute(case):
    model, position = case["model"], case["position"]
    batch, length, vocabulary = case["batch"], case["length"], model["vocabulary"]
    trained, frozen = parameter_shapes(model, position)
    params = {name: weight(name, shape) for name, shape in (trained | frozen).items()}
    tokens = integers("tokens", batch * length, vocabulary).reshape(batch, length)
    targets = integers("targets", batch * length, vocabulary).reshape(batch, length)
    if case["masked"]:
        targets[integers("mask", batch * length, 3).reshape(batch, length) == 0] = -1
    weights = np.ones((batch, length))
    if case["weighted"]:
        weights = 1.0 + integers("weights", batch * length, 4).reshape(batch, length)

    def loss(p):
        return (weights * token_losses(logits_of(p, model, position, tokens), targets)).sum(axis=(-1, -2))

    logits = logits_of(params, model, position, tokens)
    gradients = {name: gradient(params, name, loss) for name in trained}
    result = {
        "losses": token_losses(logits, targets).ravel().tolist(),
        "weighted_loss": float(loss(params)),
        "weight": float(weights[targets >= 0].sum()),
        "logits": [{"position": t, "values": logits[0, t].tolist()} for t in (0, length // 2, length - 1)],
        "gradient_norm": float(np.sqrt(sum((g * g).sum() for g in gradients.values()))),
        "gradients": {},
    }
    for name, g in gradients.items():
        chosen = sorted({0, g.size // 3, g.size // 2, g.size - 1})
        result["gradients"][name] = {
            "norm": float(np.sqrt((g * g).sum())),
            "pattern_sum": float((g * pattern("direction", g.size)).sum()),
            "entries": [[i, float(g[i])] for i in chosen],
        }
    return result


MODEL = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp_hidden": 24, "context": 700,
         "vocabulary": 29, "tied": False, "qk_norm": False, "norm_epsilon": 1e-6}
FOPE = {"kind": "fope", "cap": "quarter", "zero_phase": 1, "share": "layer", "learnable": False}  # D = 5, d = 4


def case(name, position, model=None, masked=False, weighted=False, batch=2, length=13):
    return {"name": name, "model": MODEL | (model or {}), "position": position, "batch": batch, "length": length,
            "masked": masked, "weighted": weighted}


CASES = [
    case("fope", FOPE, masked=True),
    case("fope as in the paper, coefficients shared by the layers, tied",
         FOPE | {"cap": "none", "zero_phase": 0, "share": "model"}, {"tied": True}),
    case("fope learnable with qk_norm", FOPE | {"learnable": True}, {"qk_norm": True}, weighted=True),
    case("rope tied", {"kind": "rope"}, {"tied": True}, masked=True, weighted=True),
    case("alibi with one kv head", {"kind": "alibi"}, {"kv_heads": 1}),
    case("p-rope of weight 2", {"kind": "p-rope", "fraction": 0.5, "constant_weight": 2}, {"layers": 1}),
    case("yarn from a quarter of the length", {"kind": "yarn", "original_context": 175}, {"layers": 1}, masked=True),
    case("nope with qk_norm, one sequence", {"kind": "nope"}, {"layers": 1, "qk_norm": True, "kv_heads": 4}, batch=1, length=7),
]


def rounded(x):
    """Twelve digits: more than single precision can tell apart."""
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    if isinstance(x, list):
        return [rounded(value) for value in x]
    return float(f"{x:.12g}") if isinstance(x, float) else x


def compare(path, expected, found):
    """Lines that name every number that differs."""
    if isinstance(expected, dict):
        if expected.keys() != found.keys():
            return [f"{path}: keys differ"]
        return [line for key in expected for line in compare(f"{path}/{key}", expected[key], found[key])]
    if isinstance(expected, list):
        if len(expected) != len(found):
            return [f"{path}: {len(found)} elements, expected {len(expected)}"]
        return [line for i, pair in enumerate(zip(expected, found)) for line in compare(f"{path}/{i}", *pair)]
    if isinstance(expected, float):
        same = math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-11)
    else:
        same = expected == found
    return [] if same else [f"{path}: {found}, expected {expected}"]


def main():
    computed = {"cases": [case | {"expected": rounded(compute(case))} for case in CASES]}
    if sys.argv[1:] == ["--check"]:
        differences = compare("", json.loads(GOLDEN.read_text()), computed)
        print("\n".join(differences) or f"{GOLDEN.name} agrees with the reference")
        return 1 if differences else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    GOLDEN.write_text(json.dumps(computed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
