"""Gives a fresh model a head start at copying: two heads of its first layers start as a copying circuit."""

# Small models need many steps before they discover how to copy from their context, because two heads in two layers
# have to form at the same time. Here they start out formed, and training is free to change them:
# a head of layer 0 looks at the previous token and writes it into a subspace of its own;
# a head of layer 1 looks for places whose previous token is the present one, and brings along the token that is there.

import math

import torch

CIRCUIT_SEED = 5
EMBEDDING_DEVIATION = 0.06  # large enough that every token stays different from all others
FINAL_NORM_SCALE = 0.4      # keeps the first guesses modest, as the embeddings are also the output matrix
CONSTANT_VALUE = 0.9        # one coordinate that all tokens share, so that a query can ask for a position
POSITION_PAIRS = 8          # the fastest rotary pairs tell neighbours apart
CONTENT_PAIRS_FROM = 18     # the slow rotary pairs hardly turn within a sequence, so they compare contents
OTHER_OUTPUT_SCALE = 0.1    # the rest of the model begins quietly


def previous_token_head(attention, head_dimension, theta, read, write):
    """Make head 0 attend one token back and write what it `read` there into `write`."""
    half = head_dimension // 2
    attention.k_proj.weight[:head_dimension] = 0
    attention.q_proj.weight[:head_dimension] = 0
    for pair in range(POSITION_PAIRS):
        angle = theta ** (-pair / half)
        attention.k_proj.weight[pair, 0] = 0.5
        attention.q_proj.weight[pair, 0] = 0.5 * math.cos(angle)
        attention.q_proj.weight[pair + half, 0] = -0.5 * math.sin(angle)
    attention.v_proj.weight[:head_dimension] = read
    attention.o_proj.weight[:, :head_dimension] = 0.15 * write.T


def same_token_head(attention, head_dimension, query, key, value, generator):
    """Make head 0 compare the present token with the previous tokens of all places and copy from where they agree."""
    half = head_dimension // 2
    slow = [*range(CONTENT_PAIRS_FROM, half), *range(half + CONTENT_PAIRS_FROM, head_dimension)]
    mixing = torch.linalg.qr(torch.randn(len(query), len(slow), generator=generator))[0].T
    attention.k_proj.weight[:head_dimension] = 0
    attention.q_proj.weight[:head_dimension] = 0
    attention.k_proj.weight[slow] = 2.1 * mixing @ key
    attention.q_proj.weight[slow] = 2.1 * mixing @ query
    attention.v_proj.weight[:head_dimension] = value
    attention.o_proj.weight[:, :head_dimension] = 0.6 * value.T


@torch.no_grad()
def install_copy_circuit(model):
    """Write the two heads into a freshly initialised Llama model."""
    config, generator = model.config, torch.Generator().manual_seed(CIRCUIT_SEED)
    width, head_dimension = config.hidden_size, config.head_dim
    # Coordinate 0 holds the constant; the others are split into subspaces of the size of a head, or smaller ones.
    size = min(head_dimension, (width - 1) // 3)
    basis = torch.zeros(width - 1, width)
    basis[:, 1:] = torch.linalg.qr(torch.randn(width - 1, width - 1, generator=generator))[0]
    identity, previous, content = basis[:size], basis[size:2 * size], basis[2 * size:3 * size]
    embedding = model.model.embed_tokens.weight
    embedding.normal_(std=EMBEDDING_DEVIATION, generator=generator)
    model.model.norm.weight.fill_(FINAL_NORM_SCALE)
    embedding.sub_(embedding @ previous.T @ previous)
    embedding[:, 0] = CONSTANT_VALUE
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.mul_(OTHER_OUTPUT_SCALE)
        layer.mlp.down_proj.weight.mul_(OTHER_OUTPUT_SCALE)

    def padded(rows):
        return torch.cat([rows, torch.zeros(head_dimension - size, width)])

    theta = config.rope_parameters["rope_theta"]
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    previous_token_head(first, head_dimension, theta, padded(identity), padded(previous))
    same_token_head(second, head_dimension, padded(identity)[:size], previous, padded(content), generator)


@torch.no_grad()
def protect_copy_circuit(model):
    """Drop the gradients of the two heads, so that the first noisy steps do not undo them."""
    head_dimension = model.config.head_dim
    for layer in model.model.layers[:2]:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.weight.grad[:head_dimension] = 0
        layer.self_attn.o_proj.weight.grad[:, :head_dimension] = 0
