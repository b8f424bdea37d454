// Names of latent attention's tensors, and the matrix of keys and values by heads.
#include "lib/model/families/latent_loader.h"

#include <cmath>
#include <memory>

#include "lib/model/layers/rope_scaling.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/module_sharding.h"

namespace nvllm {
namespace {

// Of the norms within, whatever rms_norm_eps says.
constexpr double kEpsilon = 1e-6;

LinearWeight linear_of(WeightSource& source, const Tensor& matrix) {
    std::vector<std::unique_ptr<LinearPart>> parts;
    parts.push_back(make_dense_part(source.placed(matrix), {}, source.compute_type()));
    return LinearWeight(std::move(parts));
}

// As products take it, dequantized where it is stored quantized.
Tensor read_product_matrix(WeightSource& source, const LinearSpec& linear) {
    if (is_dense(source, linear)) {
        return as_product_matrix(source, source.read_slice(linear.weight(), {linear.out, linear.in},
                                                           WeightRole::matrix, linear.slice()));
    }
    Tensor matrix = as_type(source, read_values(source, linear), source.compute_type());
    source.release_stored();
    return matrix;
}

// A head's rows are those of its keys, then those of its values.
void load_by_head(WeightSource& source, const LinearSpec& linear, LatentAttention& layer) {
    const LatentAttentionConfig& sizes = layer.sizes;
    const int64_t rows = sizes.plain_dim + sizes.value_dim;
    const auto whole = std::make_shared<const Tensor>(read_product_matrix(source, linear));
    const auto part = [&](int64_t first, int64_t count) {
        return Tensor::borrow(whole->view().rows(first, count), whole);
    };
    for (int64_t head = 0; head < layer.heads; ++head) {
        const int64_t first = head * rows;
        layer.keys.push_back(linear_of(source, transposed(source, part(first, sizes.plain_dim))));
        layer.values.push_back(linear_of(source, part(first + sizes.plain_dim, sizes.value_dim)));
    }
}

}  // namespace

LatentAttention load_latent_attention(const ModelConfig& config, WeightSource& source,
                                      const std::string& name, int64_t in) {
    const LatentAttentionConfig& sizes = *config.latent_attention;
    const auto of_heads = [&](const std::string& linear, int64_t width, int64_t of_head) {
        const int64_t out = config.num_heads * of_head;
        return LinearSpec{
            name + linear, width, out, false, ShardAxis::output, {{out, config.num_heads}}};
    };
    const bool has_rank = sizes.query_rank > 0;
    const LinearSpec queries = has_rank ? of_heads(".q_b_proj", sizes.query_rank, sizes.query_dim())
                                        : of_heads(".q_proj", in, sizes.query_dim());
    const LinearSpec keys_and_values =
        of_heads(".kv_b_proj", sizes.latent_dim, sizes.plain_dim + sizes.value_dim);
    const LinearSpec output = {name + ".o_proj", config.num_heads * sizes.value_dim,
                               config.hidden_size, config.attention_output_bias, ShardAxis::input};
    const ModuleSharding cut(source, std::vector{queries, keys_and_values, output});
    LatentAttention layer;
    layer.sizes = sizes;
    layer.heads = cut.share(config.num_heads);
    layer.scale = static_cast<float>(latent_score_factor(config.rope) /
                                     std::sqrt(static_cast<double>(sizes.query_dim())));
    if (has_rank) {
        layer.query_rank =
            load_linear(source, {name + ".q_a_proj", in, sizes.query_rank, config.attention_bias});
        layer.query_norm =
            load_rms_norm(source, name + ".q_a_layernorm", sizes.query_rank, kEpsilon);
    }
    layer.queries = load_linear(source, cut.of(queries));
    layer.cached = load_linear(
        source, {name + ".kv_a_proj_with_mqa", in, sizes.cached(), config.attention_bias});
    layer.latent_norm = load_rms_norm(source, name + ".kv_a_layernorm", sizes.latent_dim, kEpsilon);
    load_by_head(source, cut.of(keys_and_values), layer);
    layer.output = load_linear(source, cut.of(output));
    return layer;
}

std::vector<std::string> latent_attention_readers(const ModelConfig& config,
                                                  const std::string& name) {
    const bool has_rank = config.latent_attention->query_rank > 0;
    return {name + (has_rank ? ".q_a_proj" : ".q_proj"), name + ".kv_a_proj_with_mqa"};
}

}  // namespace nvllm
