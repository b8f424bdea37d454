// Rows out of safetensors headers, and what tensor names mean.
#include "lib/view/tensor_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

namespace nvllm::view {
namespace {

constexpr std::array<std::pair<Component, const char*>, 7> kComponents = {{
    {Component::embeddings, "embeddings"},
    {Component::attention, "attention"},
    {Component::mlp, "mlp"},
    {Component::experts, "experts"},
    {Component::norms, "norms"},
    {Component::head, "head"},
    {Component::other, "other"},
}};

struct NamePart {
    std::string_view part;
    Component component;
};

// The first that a name contains decides: a norm inside of an attention layer is a norm.
constexpr std::array<NamePart, 47> kNameParts = {{
    {"vision", Component::other},
    {"visual", Component::other},
    {"multi_modal", Component::other},
    {"norm", Component::norms},
    {"LayerNorm", Component::norms},
    {".ln_", Component::norms},
    {"ln_f.", Component::norms},
    {"lm_head", Component::head},
    {"embed_out", Component::head},
    {"pooler.", Component::head},
    {"cls.predictions", Component::head},
    {"classifier.", Component::head},
    {"head.dense", Component::head},
    {"vocab_", Component::head},
    {"embed", Component::embeddings},
    {"per_layer_", Component::embeddings},
    {"layer_scalar", Component::norms},
    {"wte.", Component::embeddings},
    {"wpe.", Component::embeddings},
    {"expert", Component::experts},
    {"block_sparse_moe", Component::experts},
    {"mlp.gate.", Component::experts},
    {"router", Component::experts},
    {"feed_forward.gate.", Component::experts},
    {"attn", Component::attention},
    {"attention", Component::attention},
    {"q_proj", Component::attention},
    {"k_proj", Component::attention},
    {"v_proj", Component::attention},
    {"o_proj", Component::attention},
    {".mamba.", Component::attention},
    {"mixer.gate.", Component::experts},
    {"_latent_proj", Component::experts},
    {"mixer.up_proj", Component::mlp},
    {"mixer.down_proj", Component::mlp},
    {".mixer.", Component::attention},
    {".conv.", Component::attention},
    {"mlp", Component::mlp},
    {"feed_forward", Component::mlp},
    {"ffn", Component::mlp},
    {"gate_proj", Component::mlp},
    {"up_proj", Component::mlp},
    {"down_proj", Component::mlp},
    {"intermediate.dense", Component::mlp},
    {"output.dense", Component::mlp},
    {"decoder.weight", Component::head},
    {"decoder.bias", Component::head},
}};

ListedTensor listed(const SafetensorsEntry& entry, const std::filesystem::path& file) {
    return {entry.name, entry.dtype,
            std::vector<int64_t>(entry.shape.begin(), entry.shape.begin() + entry.rank),
            entry.end - entry.begin, file.filename().string()};
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

void add(const ListedTensor& tensor, std::optional<int64_t> bits, TensorTotal& total) {
    ++total.tensors;
    total.parameters += parameters_of(tensor, bits);
    total.bytes += tensor.bytes;
}

}  // namespace

int64_t ListedTensor::elements() const {
    uint64_t count = 1;
    for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
    return static_cast<int64_t>(count);
}

std::string ListedTensor::describe() const {
    return fmt::format("{}[{}]", dtype_name(dtype), fmt::join(shape, ", "));
}

std::vector<ListedTensor> list_tensors(const SafetensorsFile& file) {
    std::vector<ListedTensor> tensors;
    for (const SafetensorsEntry& entry : file.entries()) {
        tensors.push_back(listed(entry, file.path()));
    }
    return tensors;
}

std::vector<ListedTensor> list_tensors(const Checkpoint& checkpoint) {
    std::vector<ListedTensor> tensors;
    for (const auto& file : checkpoint.files()) {
        std::ranges::move(list_tensors(*file), std::back_inserter(tensors));
    }
    std::ranges::sort(tensors, {}, &ListedTensor::name);
    return tensors;
}

const char* component_name(Component component) {
    return std::ranges::find(kComponents, component, &std::pair<Component, const char*>::first)
        ->second;
}

Component component_of(std::string_view tensor_name) {
    for (const NamePart& row : kNameParts) {
        if (tensor_name.find(row.part) != std::string_view::npos) return row.component;
    }
    return tensor_name == "output.weight" ? Component::head : Component::other;
}

int64_t parameters_of(const ListedTensor& tensor, std::optional<int64_t> bits) {
    if (!bits) return tensor.elements();
    if (ends_with_any(tensor.name, {".qweight", ".weight_packed"})) {
        return static_cast<int64_t>(tensor.bytes) * 8 / *bits;
    }
    const bool helper =
        ends_with_any(tensor.name, {".qzeros", ".scales", ".g_idx", "_scale", "_scale_inv",
                                    "_zero_point", ".weight_shape", ".weight_g_idx"});
    return helper ? 0 : tensor.elements();
}

std::vector<TensorTotal> totals_by_component(std::span<const ListedTensor> tensors,
                                             std::optional<int64_t> bits) {
    std::vector<TensorTotal> totals;
    for (const auto& [component, name] : kComponents) {
        TensorTotal total{.name = name};
        for (const ListedTensor& tensor : tensors) {
            if (component_of(tensor.name) == component) add(tensor, bits, total);
        }
        if (total.tensors > 0) totals.push_back(total);
    }
    return totals;
}

std::vector<TensorTotal> totals_by_dtype(std::span<const ListedTensor> tensors,
                                         std::optional<int64_t> bits) {
    std::map<DType, TensorTotal> by_dtype;
    for (const ListedTensor& tensor : tensors) add(tensor, bits, by_dtype[tensor.dtype]);
    std::vector<TensorTotal> totals;
    for (auto& [dtype, total] : by_dtype) {
        total.name = dtype_name(dtype);
        totals.push_back(total);
    }
    std::ranges::stable_sort(totals, std::greater<>(), &TensorTotal::bytes);
    return totals;
}

TensorTotal total_of(std::span<const TensorTotal> totals) {
    TensorTotal sum{.name = "total"};
    for (const TensorTotal& total : totals) {
        sum.tensors += total.tensors;
        sum.parameters += total.parameters;
        sum.bytes += total.bytes;
    }
    return sum;
}

}  // namespace nvllm::view
