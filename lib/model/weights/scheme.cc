// The table of quantized formats, and linears made of their parts.
#include "lib/model/weights/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/quantized_part.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/rank_sum.h"
#include "lib/model/weights/sparse_bitmask.h"

namespace nvllm {
namespace {

constexpr auto kSchemes = std::to_array<WeightScheme>({
    {"pack-quantized", read_packed_integers, pack_integers, nullptr, false,
     packed_integer_granularity},
    {"int-quantized", read_codes, pack_codes, nullptr, false, scale_granularity},
    {"float-quantized", read_codes, pack_codes, nullptr, false, scale_granularity},
    {"naive-quantized", read_codes, pack_codes, nullptr, false, scale_granularity},
    {"fp8-block", read_float8_blocks, pack_float8_blocks, nullptr, false, scale_granularity},
    {"nvfp4-pack-quantized", read_nvfp4, pack_nvfp4, nullptr, false, nibble_granularity},
    {"nvfp4-modelopt", read_nvfp4_modelopt, pack_nvfp4_modelopt, nullptr, false,
     nibble_granularity},
    {"mxfp4-pack-quantized", read_mxfp4, pack_mxfp4, nullptr, false, nibble_granularity},
    {"mxfp8-quantized", read_mxfp8, pack_mxfp8, nullptr, false, scale_granularity},
    {"awq", read_awq, pack_awq, awq_refuses, false, awq_granularity},
    {"awq-gemv", read_awq_gemv, pack_awq_gemv, nullptr, false, awq_gemv_granularity},
    {"awq-gemv-fast", read_awq_gemv_fast, pack_awq_gemv_fast, nullptr, false,
     awq_gemv_fast_granularity},
    {"bitsandbytes-4bit", read_bitsandbytes4, pack_bitsandbytes4, nullptr, true,
     bitsandbytes_granularity},
    {"bitsandbytes-8bit", read_bitsandbytes8, pack_bitsandbytes8, nullptr, true, scale_granularity},
    {"gptq", read_gptq, pack_gptq, gptq_refuses, true, gptq_granularity},
    {"gptq_v2", read_gptq_true_zeros, pack_gptq_true_zeros, gptq_refuses, true, gptq_granularity},
});

const WeightScheme& find_scheme(std::string_view format, const std::string& linear) {
    for (const WeightScheme& scheme : kSchemes) {
        if (format == scheme.name) return scheme;
    }
    std::vector<const char*> names;
    for (const WeightScheme& scheme : kSchemes) names.push_back(scheme.name);
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: the format {} is not known; those that are: {}", linear, format,
                            fmt::join(names, ", ")));
}

// Null: dense.
const QuantizationScheme* scheme_of(const WeightSource& source, const LinearSpec& name) {
    const QuantizationConfig* quantization = source.quantization();
    const QuantizationScheme* scheme =
        quantization == nullptr ? nullptr : quantization->scheme_for(name.name);
    const bool is_dense =
        scheme == nullptr || scheme->format == "dense" || source.keeps_dense(name.name);
    if (is_dense) return nullptr;
    const bool is_turned = name.order == MatrixOrder::in_out;
    return is_turned && !find_scheme(scheme->format, name.name).stores_in_out ? nullptr : scheme;
}

std::vector<std::unique_ptr<LinearPart>> load_quantized(WeightSource& source,
                                                        std::span<const LinearSpec> names,
                                                        const QuantizationScheme& scheme) {
    const WeightScheme& format = find_scheme(scheme.format, names.front().name);
    for (const LinearSpec& name : names) check_slice(name, format.granularity(*scheme.weights));
    return load_quantized(source, names, scheme, format);
}

std::unique_ptr<LinearPart> load_part(WeightSource& source, const LinearSpec& name) {
    if (const QuantizationScheme* const scheme = scheme_of(source, name)) {
        return std::move(load_quantized(source, {&name, 1}, *scheme).front());
    }
    return stores_sparse(source, name) ? load_sparse(source, name)
                                       : std::move(load_dense(source, {&name, 1}).front());
}

// The scheme that all linears have; null where one is dense or they have several.
const QuantizationScheme* common_scheme(const WeightSource& source,
                                        std::span<const LinearSpec> names) {
    const QuantizationScheme* const scheme = scheme_of(source, names.front());
    const bool is_common = std::all_of(names.begin(), names.end(), [&](const LinearSpec& name) {
        return scheme_of(source, name) == scheme;
    });
    return is_common ? scheme : nullptr;
}

// Linears that are stored alike, perhaps as one part; empty: they are not.
std::vector<std::unique_ptr<LinearPart>> load_together(WeightSource& source,
                                                       std::span<const LinearSpec> names) {
    if (const QuantizationScheme* const scheme = common_scheme(source, names)) {
        return load_quantized(source, names, *scheme);
    }
    const bool are_dense = std::all_of(
        names.begin(), names.end(), [&](const LinearSpec& name) { return is_dense(source, name); });
    return are_dense ? load_dense(source, names) : std::vector<std::unique_ptr<LinearPart>>();
}

// The hook's part instead of a linear that then is not loaded; null: none.
std::unique_ptr<LinearPart> deferred(WeightSource& source, const LinearSpec& name) {
    if (source.hook() == nullptr) return nullptr;
    std::unique_ptr<LinearPart> part = source.hook()->defer(name);
    if (part != nullptr) source.pass_over(name.name);
    return part;
}

std::unique_ptr<LinearPart> wrapped(const WeightSource& source, std::span<const LinearSpec> names,
                                    size_t index, std::unique_ptr<LinearPart> part) {
    LinearHook* const hook = source.hook();
    return hook == nullptr ? std::move(part) : hook->wrap(names, index, std::move(part));
}

}  // namespace

std::span<const WeightScheme> weight_schemes() { return kSchemes; }

TensorSlice LinearSpec::slice(MatrixOrder stored) const {
    if (shard.is_whole()) return {};
    const bool is_first = (axis == ShardAxis::output) == (stored == MatrixOrder::out_in);
    TensorSlice slice{shard, is_first ? 0 : 1};
    if (axis == ShardAxis::output) slice.pieces = pieces;
    return slice;
}

LinearSpec LinearSpec::whole() const {
    LinearSpec linear = *this;
    if (axis == ShardAxis::output) linear.out = slice().whole_size(out);
    if (axis == ShardAxis::input) linear.in *= shard.ranks;
    linear.shard = {};
    return linear;
}

std::string why_not_cut(const LinearSpec& linear, int32_t ranks,
                        const ShardGranularity& granularity) {
    const bool is_output = linear.axis == ShardAxis::output;
    const int64_t unit = is_output ? granularity.out : granularity.in;
    std::vector<ShardPiece> pieces = {is_output ? linear.out : linear.in};
    if (is_output && !linear.pieces.empty()) pieces = linear.pieces;
    for (const ShardPiece& piece : pieces) {
        if (linear.axis == ShardAxis::none || piece.can_be_cut(ranks, unit)) continue;
        const std::string units =
            unit == 1 ? "" : fmt::format(" in multiples of {}, which are stored together", unit);
        const std::string heads = piece.units > 0 ? fmt::format(" of {} heads", piece.units) : "";
        return fmt::format("{}: {} {}{} cannot be divided among {} ranks{}", linear.name,
                           piece.size, is_output ? "outputs" : "inputs", heads, ranks, units);
    }
    return {};
}

LinearSpec slice_of(const LinearSpec& linear, const Shard& shard) {
    NVLLM_CHECK(linear.shard.is_whole(), "slices are not cut again");
    if (linear.axis == ShardAxis::none || shard.is_whole()) return linear;
    const std::string refusal = why_not_cut(linear, shard.ranks, {});
    if (!refusal.empty()) throw Error(ErrorKind::bad_config, refusal);
    LinearSpec slice = linear;
    slice.shard = shard;
    if (linear.axis == ShardAxis::input) {
        slice.in /= shard.ranks;
    } else if (linear.pieces.empty()) {
        slice.out /= shard.ranks;
    } else {
        slice.out = 0;
        for (const ShardPiece& piece : linear.pieces) slice.out += piece.share_of(shard);
    }
    return slice;
}

void check_slice(const LinearSpec& linear, const ShardGranularity& granularity) {
    if (linear.shard.is_whole()) return;
    const std::string refusal = why_not_cut(linear.whole(), linear.shard.ranks, granularity);
    if (!refusal.empty()) throw Error(ErrorKind::bad_config, refusal);
}

void check_storable(std::string_view format, const LinearSpec& linear,
                    const QuantizationArguments& arguments) {
    const WeightScheme& scheme = find_scheme(format, linear.name);
    if (linear.order == MatrixOrder::in_out && !scheme.stores_in_out) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: transformers keeps it as a Conv1D [in, out]; {} is a format of "
                        "linears [out, in], and whoever loads it would not look for a "
                        "Conv1D's tensors there. --format gptq has a place for them",
                        linear.name, format));
    }
    const char* const why =
        scheme.refuses == nullptr ? nullptr : scheme.refuses(arguments, linear.out, linear.in);
    if (why != nullptr) throw Error(ErrorKind::bad_data, linear.name + ": " + why);
}

ShardGranularity granularity_of(const WeightSource& source, const LinearSpec& linear) {
    ShardGranularity granularity;
    if (const QuantizationScheme* const scheme = scheme_of(source, linear)) {
        granularity = find_scheme(scheme->format, linear.name).granularity(*scheme->weights);
        // Neighbours belong to other groups than each other.
        const bool is_reordered = scheme->weights->actorder == ActivationOrder::group;
        if (is_reordered) granularity.in = linear.in;
    }
    return stores_sparse(source, linear) ? granularity.with({1, 8}) : granularity;
}

bool is_dense(const WeightSource& source, const LinearSpec& linear) {
    return scheme_of(source, linear) == nullptr && !stores_sparse(source, linear);
}

std::vector<NamedTensor> pack(const QuantizedMatrix& matrix, const std::string& linear_name,
                              std::string_view format, DType scale_type) {
    return find_scheme(format, linear_name).pack(matrix, linear_name, scale_type);
}

LinearWeight::LinearWeight(std::vector<std::unique_ptr<LinearPart>> parts, bool sums_ranks)
    : parts_(std::move(parts)), sums_ranks_(sums_ranks) {
    for (const auto& part : parts_) {
        NVLLM_CHECK(part->in() == in(), "parts of one linear read the same input");
    }
}

int64_t LinearWeight::out() const {
    int64_t columns = 0;
    for (const auto& part : parts_) columns += part->out();
    return columns;
}

size_t LinearWeight::bytes() const {
    size_t bytes = 0;
    for (const auto& part : parts_) bytes += part->bytes();
    return bytes;
}

void LinearWeight::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
                         const TensorView& y) const {
    if (!sums_ranks_) return apply_parts(context, x, output, y);
    sum_over_ranks(context, output, y, [&](const TensorView& share) {
        apply_parts(context, x, ops::MatmulOutput::overwrite, share);
    });
}

void LinearWeight::apply_parts(const Context& context, const ConstTensorView& x,
                               ops::MatmulOutput output, const TensorView& y) const {
    int64_t column = 0;
    for (const auto& part : parts_) {
        const ScratchArena::Scope scope(*context.scratch);
        part->apply(context, x, output, y.columns(column, part->out()));
        column += part->out();
    }
    add_adapters(context, lora_target_, x, y);
}

Tensor read_values(WeightSource& source, const LinearSpec& linear,
                   const QuantizationScheme& scheme) {
    const WeightScheme& format = find_scheme(scheme.format, linear.name);
    check_slice(linear, format.granularity(*scheme.weights));
    const QuantizedReader reader(source, linear, scheme);
    const QuantizedMatrix matrix = format.read(reader);
    return source.has_values() ? dequantized(matrix, source.threads())
                               : meta_tensor(DType::f32, {linear.out, linear.in});
}

Tensor read_values(WeightSource& source, const LinearSpec& linear) {
    if (const QuantizationScheme* const scheme = scheme_of(source, linear)) {
        return read_values(source, linear, *scheme);
    }
    if (stores_sparse(source, linear)) {
        const SparseMatrix matrix =
            read_sparse(source, linear, {DType::bf16, DType::f16, DType::f32});
        return as_float32(source, with_zeros(source, matrix));
    }
    if (linear.order == MatrixOrder::out_in) {
        return as_float32(source, source.read_slice(linear.weight(), {linear.out, linear.in},
                                                    WeightRole::matrix, linear.slice()));
    }
    const Tensor stored = source.read_slice(linear.weight(), {linear.in, linear.out},
                                            WeightRole::matrix, linear.slice(MatrixOrder::in_out));
    return transposed(as_float32(source, stored), source.threads());
}

namespace {

LinearWeight load_parts(WeightSource& source, std::span<const LinearSpec> names) {
    const LinearSpec& first = names.front();
    const bool sums_ranks =
        first.axis == ShardAxis::input && !first.shard.is_whole() && !first.is_partial;
    std::vector<std::unique_ptr<LinearPart>> parts;
    // A hook is given each linear by itself.
    if (source.hook() == nullptr) parts = load_together(source, names);
    source.release_stored();  // they keep what they made of it
    if (!parts.empty()) return LinearWeight(std::move(parts), sums_ranks);
    for (size_t i = 0; i < names.size(); ++i) {
        std::unique_ptr<LinearPart> part = deferred(source, names[i]);
        if (part == nullptr) part = load_part(source, names[i]);
        source.release_stored();
        parts.push_back(wrapped(source, names, i, std::move(part)));
    }
    return LinearWeight(std::move(parts), sums_ranks);
}

void note_lora_target(WeightSource& source, std::span<const LinearSpec> names,
                      LinearWeight& linear) {
    if (source.lora_targets() == nullptr) return;
    linear.set_lora_target(source.lora_targets()->add(source, names));
}

}  // namespace

LinearWeight load_linear(WeightSource& source, std::span<const LinearSpec> names) {
    LinearWeight linear = load_parts(source, names);
    note_lora_target(source, names, linear);
    return linear;
}

LinearWeight load_linear(WeightSource& source, const LinearSpec& name) {
    return load_linear(source, std::span<const LinearSpec>(&name, 1));
}

LinearWeight wrap_linear(WeightSource& source, const LinearSpec& name,
                         std::unique_ptr<LinearPart> part) {
    const std::span<const LinearSpec> names(&name, 1);
    std::vector<std::unique_ptr<LinearPart>> parts;
    parts.push_back(wrapped(source, names, 0, std::move(part)));
    LinearWeight linear(std::move(parts));
    note_lora_target(source, names, linear);
    return linear;
}

}  // namespace nvllm
